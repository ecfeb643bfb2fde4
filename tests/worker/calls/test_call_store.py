"""The call store: every published call is in one live file, and in the spend of its day, once."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import pytest
from redis import Redis
from sqlalchemy import Engine, delete, func, select, text, update
from sqlalchemy.orm import Session

import detectors
from detectors.formats import decode_batch, encode_records
from detectors.report.account import read_calls
from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.queues import AuditQueues
from service.models import Audit, CallFile, CallImport, ReplacedImport, SpendRow
from service.models.base import utc_now
from service.models.calls.account_audits import queue_account_audit
from service.models.calls.call_files import DAY, IMPORT, LATE, list_due
from service.operations.call_store import compaction
from service.operations.maintenance import orphan_blobs
from service.operations.maintenance.account_deletion import erase_account
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from service.operations.maintenance.sweeper import Sweeper
from tests.warm import WarmProcess
from tests.worker.calls.test_account_audits import audit_account
from tests.worker.support.promises import Note, at_a_fortieth, sampled, scaled
from worker import compact_calls, run_audit

DAYS = 3  # of the calls of a batch
NewBatch = Callable[[bytes], str]


def batch(records: int, seed: int = 0) -> bytes:
    """Return an ingest body with calls of three days."""
    calls = [
        {
            "ts": f"2026-10-0{1 + number % DAYS}T12:00:{number % 60:02d}Z",
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 900 + number,
            "completion_tokens": 60,
            "request_id": f"{seed}-{number}",
            "tag": f"route-{number % 2}",
        }
        for number in range(records)
    ]
    return msgspec.json.encode({"records": calls})


def live(engine: Engine, account_id: str) -> Sequence[Any]:
    query = select(CallFile).where(
        CallFile.account_id == account_id, CallFile.replaced_at.is_(None)
    )
    with Session(engine) as session:
        return session.scalars(query.order_by(CallFile.first_day, CallFile.level)).all()


def stored_ids(engine: Engine, blobs: BlobStore, account_id: str) -> list[str]:
    """Return the request IDs of all calls in the live files."""
    found: list[str] = []
    for file in live(engine, account_id):
        with blobs.open(file.blob_key) as stored:
            calls = read_calls(stored)
        assert calls.height == file.calls
        assert str(calls["ts"].min())[:10] == str(file.first_day)
        assert str(calls["ts"].max())[:10] == str(file.last_day)
        found += calls["request_id"].to_list()
    return sorted(found)


def spend(engine: Engine, account_id: str) -> tuple[int, Decimal]:
    query = select(func.sum(SpendRow.calls), func.sum(SpendRow.cost_usd))
    with Session(engine) as session:
        calls, cost = session.execute(query.where(SpendRow.account_id == account_id)).one()
    return int(calls), cost


def cost_of(*bodies: bytes) -> Decimal:
    return sum((_cost_of_each(len(decode_batch(body))) for body in bodies), Decimal(0))


@cache
def _cost_of_each(records: int) -> Decimal:
    """Return what a batch of so many records costs, whatever their request IDs are."""
    return detectors.audit(decode_batch(batch(records))).audit.total_spend_usd


def test_a_published_audit_adds_its_calls_and_their_spend(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    audit_id = publish(batch(60))
    (file,) = live(engine, account_id)
    assert (file.level, file.calls, file.import_id) == (IMPORT, 60, f"{audit_id}-1")
    assert len(stored_ids(engine, blobs, account_id)) == 60
    assert spend(engine, account_id) == (60, cost_of(batch(60)))
    with Session(engine) as session:
        lines = session.scalars(select(SpendRow).order_by(SpendRow.day, SpendRow.route)).all()
    assert {line.route for line in lines} == {"route-0", "route-1"}
    assert len({line.day for line in lines}) == DAYS


def test_compaction_leaves_each_call_once_in_one_file_of_sparse_days(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    bodies = [batch(30, seed) for seed in range(4)]
    for body in (*bodies, bodies[0]):
        publish(body)
    assert spend(engine, account_id)[0] == 150
    compact(engine, account_id)
    (file,) = live(engine, account_id)
    assert (file.last_day - file.first_day).days == DAYS - 1
    assert file.duplicates == 30
    expected = sorted(f"{seed}-{number}" for seed in range(4) for number in range(30))
    assert stored_ids(engine, blobs, account_id) == expected
    assert spend(engine, account_id) == (120, cost_of(*bodies))
    compact_calls(account_id)
    assert [each.id for each in live(engine, account_id)] == [file.id]


def test_late_calls_wait_beside_the_files_of_their_days_each_once(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    """The file of their days, its spend too, stays as it is until they are many or repeated."""
    first = batch(90)
    publish(first)
    compact(engine, account_id)
    (day,) = live(engine, account_id)
    lines = spend_ids(engine, day.id)
    late = batch(15, 1)
    publish(late)
    compact(engine, account_id)
    assert {file.level for file in live(engine, account_id)} == {DAY, LATE}
    assert spend_ids(engine, day.id) == lines
    assert spend(engine, account_id) == (105, cost_of(first, late))
    assert audit_calls(engine, account_id) == (105, cost_of(first, late))
    # The same calls again, one of both files: only the files that have them are written again.
    publish(late)
    publish(batch(1))
    assert spend(engine, account_id)[0] == 121
    assert audit_calls(engine, account_id) == (105, cost_of(first, late))
    assert spend(engine, account_id) == (105, cost_of(first, late))
    publish(batch(30, 2))
    compact(engine, account_id)
    (merged,) = live(engine, account_id)
    assert merged.duplicates == 16
    expected = [
        f"{seed}-{number}" for seed, most in enumerate((90, 15, 30)) for number in range(most)
    ]
    assert stored_ids(engine, blobs, account_id) == sorted(expected)
    assert spend(engine, account_id) == (135, cost_of(first, late, batch(30, 2)))
    assert audit_calls(engine, account_id) == (135, cost_of(first, late, batch(30, 2)))


def spend_ids(engine: Engine, file_id: str) -> Sequence[int]:
    with Session(engine) as session:
        return session.scalars(select(SpendRow.id).where(SpendRow.file_id == file_id)).all()


def audit_calls(engine: Engine, account_id: str) -> tuple[int, Decimal | None]:
    """Audit all days of the account; return its calls and its spend."""
    audit = audit_account(engine, account_id, 90)
    return audit.records, audit.total_spend_usd


@pytest.mark.parametrize("sign", sampled([-1, 1], 2, ["past", "future"]))
def test_a_batch_of_many_days_is_few_files(
    sign: int, engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    """5,000 days are 165 files: tests/detectors/report/account/test_call_files.py."""
    now = utc_now()
    days = [now + sign * timedelta(days=days) for days in range(5, 205)]
    call = msgspec.json.decode(batch(1))["records"][0]
    calls = [
        {**call, "request_id": str(number), "ts": day.isoformat()}
        for number, day in enumerate(days)
    ]
    publish(msgspec.json.encode({"records": calls[:150]}))
    compact(engine, account_id)
    publish(msgspec.json.encode({"records": calls[50:]}))
    compact(engine, account_id)
    months = {(day.year, day.month) for day in days}
    assert len(live(engine, account_id)) <= 2 * len(months)
    assert stored_ids(engine, blobs, account_id) == sorted(map(str, range(200)))
    assert spend(engine, account_id)[0] == 200


def test_files_of_an_earlier_release_are_merged_as_they_are(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    """It left two files of one day, and one file for each future day."""
    publish(batch(30))
    publish(batch(30, 1))
    publish(batch(10))
    with engine.begin() as connection:
        ids = connection.scalars(select(CallFile.id).order_by(CallFile.created_at)).all()
        older = update(CallFile).where(CallFile.id.in_(ids[:2])).values(level=DAY)
        connection.execute(older)
    compact_calls(account_id)
    compact(engine, account_id)
    (file,) = live(engine, account_id)
    assert (file.calls, file.duplicates) == (60, 10)


def test_a_call_of_the_client_a_trace_and_a_gateway_is_stored_once(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    """Every two ways are merged in tests/client/test_ways_in.py."""
    (call,) = msgspec.json.decode(batch(1))["records"]
    call["request_id"] = "chatcmpl-9aQ"
    ways = [
        {"ts": "2026-10-01T12:00:00.250000Z", "endpoint": "chat/completions"},
        {"ts": "2026-10-01T12:00:00.500000Z", "tag": "checkout", "model": "gpt-4o-2024-08-06"},
        {"ts": "2026-10-01T12:00:01Z", "provider": "azure"},
    ]
    for way in ways:
        publish(msgspec.json.encode({"records": [{**call, **way}]}))
    assert spend(engine, account_id)[0] == 3
    compact(engine, account_id)
    assert stored_ids(engine, blobs, account_id) == ["chatcmpl-9aQ"]
    assert spend(engine, account_id) == (1, cost_of(batch(1)))


def compact(engine: Engine, account_id: str) -> None:
    """Compact as if all calls had come an hour ago."""
    with engine.begin() as connection:
        earlier = func.now() - text("interval '1 hour'")
        connection.execute(update(CallFile).values(created_at=earlier))
        assert list_due(connection, utc_now().date(), 10) == [account_id]
    compact_calls(account_id)
    with engine.begin() as connection:
        assert list_due(connection, utc_now().date(), 10) == []


@pytest.mark.parametrize("is_compacted", sampled([True, False], 2, ["merged", "in its frame"]))
def test_a_rerun_replaces_the_calls_of_its_audit(
    is_compacted: bool, engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    audit_id = publish(batch(30, 1))
    publish(batch(30, 2))
    if is_compacted:
        compact(engine, account_id)
    rerun(engine, audit_id)
    assert spend(engine, account_id)[0] == 60
    # The same records, but read by a release that reads them differently.
    blobs.put(f"raw/{audit_id}.jsonl", encode_records(decode_batch(batch(20, 3))))
    rerun(engine, audit_id)
    compact(engine, account_id)
    expected = sorted([f"3-{number}" for number in range(20)] + [f"2-{n}" for n in range(30)])
    assert stored_ids(engine, blobs, account_id) == expected
    assert spend(engine, account_id) == (50, cost_of(batch(20, 3), batch(30, 2)))
    with Session(engine) as session:
        assert session.scalars(select(ReplacedImport)).all() == []
        assert session.get_one(CallImport, audit_id).calls == 20


def rerun(engine: Engine, audit_id: str) -> None:
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_id).values(status="queued"))
    run_audit(audit_id)


def test_a_file_that_changes_while_it_is_merged_stays_as_it_is(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit_id = publish(batch(30))
    merge_stored, is_late = detectors.report.account.merge_stored, iter([True])

    def merge_late(*files: Any, **options: Any) -> Iterator[Any]:
        yield from merge_stored(*files, **options)
        if next(is_late, False):
            rerun(engine, audit_id)

    monkeypatch.setattr("detectors.report.account.merge_stored", merge_late)
    compact_calls(account_id)
    assert len(stored_ids(engine, blobs, account_id)) == 30
    assert spend(engine, account_id) == (30, cost_of(batch(30)))
    assert orphans(engine, blobs) == set()


def orphans(engine: Engine, blobs: BlobStore) -> set[str]:
    """Return stored files that the catalog does not name; check that all named ones exist."""
    with engine.connect() as connection:
        named = set(
            connection.scalars(select(CallFile.blob_key).where(CallFile.replaced_at.is_(None)))
        )
    assert all(map(blobs.exists, named))
    return set(blobs.list_old("store", 0)) - named


def test_replaced_files_become_orphans_and_live_ones_do_not(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(batch(30, 1))
    compact(engine, account_id)
    publish(batch(30, 2))
    compact(engine, account_id)
    assert len(orphans(engine, blobs)) == 1
    with engine.begin() as connection:  # as retention deletes old reports
        connection.execute(delete(Audit).where(Audit.account_id == account_id))
    monkeypatch.setattr(orphan_blobs, "_OLD_SECONDS", 0)
    with engine.connect() as connection:
        OrphanBlobs(blobs).clear_page(connection)
    assert orphans(engine, blobs) == set()
    assert len(stored_ids(engine, blobs, account_id)) == 60
    # A deleted account leaves no file.
    publish(batch(30, 1))
    with Session(engine) as session:
        erase_account(
            session, blobs, account_id=account_id, email="worker@example.com", session_id=""
        )
        assert session.scalars(select(CallFile.id)).all() == []
        assert session.scalars(select(SpendRow.id)).all() == []
    assert [*blobs.list_old("store", 0), *blobs.list_old("frames", 0)] == []


def test_the_sweeper_wakes_a_worker_for_what_is_due(
    engine: Engine, blobs: BlobStore, config: Config, account_id: str, publish: NewBatch
) -> None:
    queues = AuditQueues.from_config(config)
    with Redis.from_url(config.redis_url) as redis, engine.connect() as connection:
        redis.flushall()
        publish(batch(30, 1))
        Sweeper(config, engine, queues, blobs).sweep(connection)
        assert queues.depths()["call-store"] == 0
        with connection.begin():
            connection.execute(
                update(CallFile).values(created_at=func.now() - text("'1 h'::interval"))
            )
        for _ in range(2):
            Sweeper(config, engine, queues, blobs).sweep(connection)
        assert queues.depths()["call-store"] == 1
        redis.flushall()


def test_housekeeping_forgets_replaced_files_after_a_day(
    engine: Engine, blobs: BlobStore, config: Config, account_id: str, publish: NewBatch
) -> None:
    publish(batch(30))
    compact(engine, account_id)
    is_replaced = CallFile.replaced_at.is_not(None)

    def count_after_round() -> int:
        with engine.connect() as connection:
            Housekeeping(config, blobs).take_turn(connection)
            return len(connection.execute(select(CallFile.id).where(is_replaced)).all())

    assert count_after_round() == 1
    with engine.begin() as connection:
        earlier = func.now() - text("interval '25 hours'")
        connection.execute(update(CallFile).where(is_replaced).values(replaced_at=earlier))
    assert count_after_round() == 0
    assert len(stored_ids(engine, blobs, account_id)) == 30


def test_an_audit_of_the_account_fails_rather_than_miss_calls(
    engine: Engine, account_id: str, publish: NewBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(batch(30))
    monkeypatch.setattr(compaction, "replace_files", lambda *_: False)
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    with pytest.raises(compaction.FilesChangedError):
        run_audit(audit_id)
    with Session(engine) as session:
        assert session.get_one(Audit, audit_id).status == "queued"


@at_a_fortieth
def test_compaction_killed_at_any_moment_loses_and_doubles_nothing(
    share: float,
    engine: Engine,
    blobs: BlobStore,
    config: Config,
    account_id: str,
    publish: NewBatch,
    note: Note,
) -> None:
    kills, losses, random = scaled(60, share), 0, Random(15)
    bodies: list[bytes] = []
    for kill in range(kills):
        bodies += [batch(20, 2 * kill), batch(20, 2 * kill + 1)]
        for body in bodies[-2:]:
            publish(body)
        compact_and_kill(account_id, random.uniform(0, 0.8))
        expected = sorted(f"{seed}-{number}" for seed in range(len(bodies)) for number in range(20))
        losses += stored_ids(engine, blobs, account_id) != expected
        losses += spend(engine, account_id) != (len(expected), cost_of(*bodies))
    bodies.append(batch(20, len(bodies)))
    publish(bodies[-1])
    compact(engine, account_id)
    losses += sum(file.level == DAY for file in live(engine, account_id)) != 1
    losses += spend(engine, account_id) != (20 * len(bodies), cost_of(*bodies))
    note("43 compaction killed at any moment loses and doubles nothing", kills, losses)


def compact_and_kill(account_id: str, after: float) -> None:
    command = ("tests.worker.support.compact_calls", account_id)
    with NamedTemporaryFile() as log:
        process = WarmProcess(command, os.environ, Path(log.name))
        time.sleep(after)
        process.kill()
        process.wait()
