"""Kills between a batch's request and the account's report lose and double nothing."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from random import Random
from typing import Final

import psutil
import pytest
import requests

import detectors
from detectors.formats import decode_batch
from service.core.blobs import BlobStore
from service.models.audits.blob_keys import BLOB_FOLDERS
from service.models.calls.account_audits import queue_account_audit
from service.models.calls.call_files import LATE
from service.operations.maintenance import orphan_blobs
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.promises import Note
from tests.worker.support.system import System
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import kill, wait_until, wait_until_ended

KILLS: Final = 60
BATCHES_A_KILL: Final = 4
RECORDS: Final = 40
# What compaction merges is older, and the account's audit is asked for at once.
_IS_QUIET: Final = "UPDATE call_files SET created_at = now() - interval '1 hour'"
_LIVE: Final = "FROM call_files WHERE replaced_at IS NULL"
_OF_AUDITS: Final = """
    SELECT blob_key FROM audits WHERE raw_purged_at IS NULL
    UNION SELECT frame_key FROM audits WHERE frame_key IS NOT NULL
"""


@pytest.fixture
def patient_system() -> Iterator[System]:
    """A service that gives no audit up, however often its attempts are killed."""
    with started_system(MAX_STARTS="100", **SHORT) as system:
        yield system


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_kills_during_ingest_publishing_compaction_and_account_audits(
    patient_system: System, note: Note, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, random, bodies = patient_system, Random(15), list[bytes]()
    (account_id,) = (row.id for row in system.rows("SELECT id FROM accounts"))
    with ThreadPoolExecutor(1) as pool:
        for number in range(KILLS):
            new = [batch(RECORDS, seed=len(bodies) + each) for each in range(BATCHES_A_KILL)]
            bodies += new
            sent = pool.submit(_send, system, new)
            system.execute(_IS_QUIET)
            with system.engine.begin() as connection:
                queue_account_audit(connection, account_id, 30)
            time.sleep(random.uniform(0, 1.2))
            if number % 4 == 0:
                system.kill_web()
            else:
                _kill_worker(system, random)
            sent.result()
    expected = detectors.audit([record for body in bodies for record in decode_batch(body)]).audit
    report = _audit_all(system, account_id)
    losses = report != (expected.records, expected.total_spend_usd)
    losses += system.rows(f"SELECT sum(calls) {_LIVE}")[0][0] != expected.records
    losses += _files_differ(system, monkeypatch)
    note("43 kills from ingest to the account's report lose and double nothing", KILLS, losses)


def _send(system: System, bodies: list[bytes]) -> None:
    """Send each batch until it is accepted, as the client does: some are accepted twice."""
    for body in bodies:
        wait_until(partial(_is_accepted, system, body), 60)


def _is_accepted(system: System, body: bytes) -> bool:
    headers = {"Authorization": f"Bearer {system.key}", "Content-Type": "application/json"}
    try:
        url = f"{system.base_url}/api/v1/ingest"
        response = requests.post(url, data=body, headers=headers, timeout=60)
    except requests.RequestException:
        return False
    return response.status_code == 201


def _kill_worker(system: System, random: Random) -> None:
    """SIGKILL to a worker and to the process that runs its job."""
    name = random.choice([name for name in system.processes if name.startswith("worker")])
    children = psutil.Process(system.processes[name].pid).children()
    system.kill_process(name)
    for child in children:
        kill(child.pid)
        wait_until_ended(child.pid)
    system.start_process(name)


def _audit_all(system: System, account_id: str) -> tuple[int, Decimal]:
    """Wait until all is published and merged; return the calls and the spend of the account."""
    unfinished = "SELECT 1 FROM audits WHERE status IN ('queued', 'processing')"
    wait_until(lambda: not system.rows(unfinished), 300)
    assert system.statuses().keys() == {"done"}
    with system.engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    system.wait_done([audit_id], 120)
    system.execute(_IS_QUIET)
    is_waiting = f"SELECT 1 {_LIVE} AND level < {LATE}"
    wait_until(lambda: not system.rows(is_waiting), 60)
    (spend,) = system.rows("SELECT sum(cost_usd) FROM daily_spend")[0]
    audit = system.audit(audit_id)
    assert spend == audit.total_spend_usd
    return audit.records, audit.total_spend_usd


def _files_differ(system: System, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count files that a row names and that are missing, and those that no row names."""
    blobs = BlobStore.from_url(system.blobs.as_uri())
    monkeypatch.setattr(orphan_blobs, "_OLD_SECONDS", 0)
    with system.engine.connect() as connection:
        cleaner = OrphanBlobs(blobs)
        for _ in range(20):  # pages of a thousand
            cleaner.clear_page(connection)
    named = {row[0] for row in system.rows(f"SELECT blob_key {_LIVE} UNION {_OF_AUDITS}")}
    found = {key for folder in BLOB_FOLDERS for key in blobs.list_old(folder, -60)}
    return len(named ^ found) + len(list(system.blobs.glob("*/.put-*")))
