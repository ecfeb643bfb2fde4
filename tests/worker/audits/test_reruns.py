"""Reruns, purges and housekeeping on the running service, requested by administrators."""

import json
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
import requests

from service.models.base import utc_now
from tests.detectors.prices.published import Publisher, make_providers, started_publisher
from tests.service.support.scenes import ADMIN_TOKEN
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.promises import Note, at_both_scales, scaled
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

MAX_STARTS = 3
SWEEPERS = ("sweeper-0", "sweeper-1")
RUNS = 3


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    with started_publisher() as publisher:
        publisher.publish(make_providers(7.0))
        yield publisher


@pytest.fixture(scope="module")
def administered_system(publisher: Publisher) -> Iterator[System]:
    settings = {**SHORT, "ADMIN_TOKEN": ADMIN_TOKEN}
    settings |= {"PRICES_UPDATE": "on", "PRICES_URL": publisher.url}
    with started_system(sweepers=2, **settings) as system:
        # Audits before and after the fetch have other prices.
        wait_until(lambda: system.rows("SELECT version FROM price_updates"), 60)
        yield system


@pytest.fixture
def administered(administered_system: System) -> System:
    administered_system.mend()
    return administered_system


def _ask(system: System, act: str, audit_id: str) -> None:
    url = f"{system.base_url}/admin/audits/{audit_id}/{act}"
    answer = requests.post(url, headers={"X-Admin-Token": ADMIN_TOKEN}, timeout=60)
    assert answer.status_code == 200, answer.text


def _document(system: System, audit_id: str) -> bytes:
    ((document,),) = system.rows("SELECT document FROM reports WHERE audit_id = :id", id=audit_id)
    return bytes(document)


def _claim(system: System, audit_id: str) -> str:
    """A credit that this audit has, as an upload would claim it."""
    credit_id = uuid4().hex
    system.execute(
        "INSERT INTO credits (id, account_id, audit_id, granted_at, claimed_at)"
        " SELECT :credit, account_id, id, now(), now() FROM audits WHERE id = :id",
        credit=credit_id,
        id=audit_id,
    )
    return credit_id


def _wait_failed(system: System, audit_ids: list[str], starts: int) -> None:
    query = (
        "SELECT count(*) FROM audits"
        " WHERE id = ANY(:ids) AND status = 'failed' AND starts = :starts"
    )

    def count() -> bool:
        return bool(system.rows(query, ids=audit_ids, starts=starts)[0][0] == len(audit_ids))

    wait_until(count, 120)


@pytest.mark.stress
def test_a_poison_audit_ends_again_after_each_rerun(administered: System, note: Note) -> None:
    """Three starts a run, and the credit comes back once however often it fails.

    tests/worker/storage/test_stored_uploads.py has the credit of one audit, without processes.
    """
    system = administered
    (system.control / "poison").touch()
    with system.without_workers():
        audit_ids = system.ingest(20)
        credits = {audit_id: _claim(system, audit_id) for audit_id in audit_ids}
    returned: list[set[tuple[object, ...]]] = []
    for run in range(1, RUNS + 1):
        _wait_failed(system, audit_ids, MAX_STARTS * run)
        rows = system.rows(
            "SELECT id, audit_id, returned_at FROM credits WHERE id = ANY(:ids)",
            ids=list(credits.values()),
        )
        returned.append({tuple(row) for row in rows})
        if run < RUNS:
            for audit_id in audit_ids:
                _ask(system, "rerun", audit_id)
    losses = sum(audit_id is not None or at is None for _, audit_id, at in returned[0])
    losses += sum(len(returned[0] ^ later) for later in returned[1:])
    note("17 a rerun poison ends again, its credit is back once", RUNS * len(audit_ids), losses)

    assert "given up" in system.audit(audit_ids[-1]).error
    (system.control / "poison").unlink()
    _ask(system, "rerun", audit_ids[0])
    system.wait_done(audit_ids[:1], 20)


def test_a_rerun_gives_the_same_report_from_the_upload_and_from_the_frame(
    administered: System,
) -> None:
    system = administered
    with system.without_workers(LEASE_SECONDS="60"):  # a busy machine would exceed 3 s
        (audit_id,) = system.ingest(1, records=200)
    system.wait_done([audit_id], 20)
    documents = [_document(system, audit_id)]
    raw = system.blobs / system.audit(audit_id).blob_key
    for act in ("rerun", "purge", "rerun"):
        _ask(system, act, audit_id)
        if act == "rerun":
            system.wait_done([audit_id], 20)
            documents.append(_document(system, audit_id))
    assert not raw.exists()
    assert system.audit(audit_id).attempts == 3
    assert len(set(documents)) == 1
    # The worker deletes the earlier frame after it has published the report.
    wait_until(lambda: len(list(system.blobs.glob("frames/*"))) == 1, 10)


def test_one_of_two_sweepers_fetches_prices_and_workers_use_them(
    administered: System, publisher: Publisher
) -> None:
    system = administered
    wait_until(lambda: system.rows("SELECT version FROM price_updates"), 20)
    (audit_id,) = system.ingest(1)
    system.wait_done([audit_id], 20)
    today = utc_now().date().isoformat()
    assert json.loads(_document(system, audit_id))["prices"]["as_of"] == today
    assert publisher.requests == 1


@at_both_scales
def test_one_of_two_sweepers_keeps_house(administered: System, note: Note, share: float) -> None:
    """Each upload is purged once, and by the one that leads."""
    system, count = administered, scaled(200, share)
    system.stop_workers()
    for name in SWEEPERS:
        system.kill_process(name)
    audit_ids = system.ingest(count, records=1)
    before = _purged(system)
    system.execute("UPDATE audits SET status = 'done', finished_at = now() - interval '8 days'")
    for name in SWEEPERS:
        system.start_process(name)  # the one that leads begins its first round at once
    query = "SELECT count(*) FROM audits WHERE raw_purged_at IS NOT NULL"
    wait_until(lambda: system.rows(query)[0][0] == count, 60)
    wait_until(lambda: sum(_purged(system).values()) > sum(before.values()), 10)
    time.sleep(2.0)
    after = _purged(system)
    purged = [after[name] - before[name] for name in after]
    losses = abs(sum(purged) - len(audit_ids)) + len(list(system.blobs.glob("raw/*")))
    losses += sum(number > 0 for number in purged) - 1
    note("18 housekeeping under one lock", count, losses)


def _purged(system: System) -> dict[str, int]:
    """How many raw uploads each sweeper says that it has purged."""
    counts = {}
    for name in SWEEPERS:
        lines = [json.loads(line) for line in system.log_of(name).splitlines() if "{" in line]
        rounds = [line for line in lines if line.get("event") == "housekeeping_done"]
        counts[name] = sum(line["raw_uploads"] for line in rounds)
    return counts
