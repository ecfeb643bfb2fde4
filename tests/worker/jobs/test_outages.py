"""An outage of storage, database or network is no attempt; a poison audit ends after three."""

import errno
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import Any

import pytest
from redis import ConnectionError as RedisConnectionError
from redis import Redis
from rq.timeouts import JobTimeoutException
from sqlalchemy import Connection, Engine, create_engine, text, update
from sqlalchemy.exc import OperationalError

from detectors.errors import ScratchFullError, UnreadableLogError
from service.config import Config
from service.core.blobs import BlobError, BlobNotFoundError, BlobStore, ScratchTooSmallError
from service.jobs import ending
from service.jobs.outages import DATABASE, NETWORK, STORAGE, Outage, find_outage
from service.jobs.process import QueueWorker
from service.jobs.queues import COMPACT_CALLS, AuditQueues
from service.jobs.transactions import transact as real
from service.models import Audit
from service.models.audits.leases import fail_exhausted, list_queued, postpone_audit
from service.models.base import utc_now
from service.models.calls.account_audits import queue_account_audit
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.maintenance.sweeper import Sweeper
from tests.cases import each_case
from tests.worker.support.claims import claim_audit
from tests.worker.support.promises import sampled
from tests.worker.support.stored import load
from worker import run_audit

FULL = BlobError(os.strerror(errno.ENOSPC), errno.ENOSPC)
CERTAIN = Outage(STORAGE, "S3 didn't respond in time")


def _raise(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def _end_pauses(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(update(Audit).values(resume_at=None))


def _counted(engine: Engine, audit_id: str) -> int:
    audit = load(engine, audit_id)
    return audit.attempts - audit.uncounted_attempts


@pytest.mark.parametrize(
    "error",
    sampled(
        [
            FULL,
            OSError(errno.EROFS, "read-only"),
            OSError("Input/output error (os error 5): /blobs/frames/x.parquet"),
            RedisConnectionError(),
        ],
        2,
    ),
    ids=lambda error: type(error).__name__,
)
def test_an_audit_outlasts_any_number_of_outages(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    audit_id = new_audit()
    with monkeypatch.context() as broken:
        broken.setattr("worker._read", _raise(error))
        for _ in range(12):
            run_audit(audit_id)
            _end_pauses(engine)
    audit = load(engine, audit_id)
    assert (audit.status, audit.attempts, _counted(engine, audit_id)) == ("queued", 12, 0)
    run_audit(audit_id)
    audit = load(engine, audit_id)
    assert (audit.status, audit.outages, _counted(engine, audit_id)) == ("done", 0, 1)


def test_a_storage_that_fails_a_write_is_an_outage(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], tmp_path: Path
) -> None:
    """Where the frames go is a file, so that no folder can be made there."""
    audit_id = new_audit()
    folder = tmp_path / "blobs" / "frames"
    folder.rmdir() if folder.exists() else None
    folder.touch()
    with pytest.raises(BlobError):
        blobs.put("frames/x-1.parquet", b"")
    folder.unlink()
    folder.symlink_to("/proc/self")  # exists, and takes no files
    for _ in range(4):
        run_audit(audit_id)
        _end_pauses(engine)
    assert load(engine, audit_id).status == "queued"
    folder.unlink()
    run_audit(audit_id)
    assert load(engine, audit_id).status == "done"


def test_pauses_double_and_keep_workers_and_the_sweeper_away(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id = new_audit()
    monkeypatch.setattr("worker._read", _raise(FULL))
    pauses = []
    for _ in range(7):
        run_audit(audit_id)
        run_audit(audit_id)  # not claimed
        resume_at = load(engine, audit_id).resume_at
        assert resume_at is not None
        pauses.append((resume_at - utc_now()).total_seconds())
        with engine.begin() as connection:
            due = list_queued(connection, older_than_seconds=-60, after=None)
            assert audit_id not in [row.id for row in due]
        _end_pauses(engine)
    assert load(engine, audit_id).attempts == 7
    for pause, expected in zip(pauses, (2, 4, 8, 16, 32, 60, 60), strict=True):
        assert expected - 2 < pause <= expected
    with engine.begin() as connection:
        due = list_queued(connection, older_than_seconds=-60, after=None)
        assert audit_id in [row.id for row in due]


@pytest.mark.parametrize(
    "error",
    sampled(
        [
            ZeroDivisionError(),
            ScratchTooSmallError(),
            ValueError(),
            JobTimeoutException(),
            ScratchFullError("/scratch", 9_000_000_000, 1_000_000_000),
        ],
        3,
    ),
    ids=lambda error: type(error).__name__,
)
def test_a_poison_audit_ends_after_three_attempts(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Between its attempts, an outage changes nothing."""
    audit_id = new_audit()
    for attempt in range(3):
        monkeypatch.setattr("worker._read", _raise(FULL))
        run_audit(audit_id)
        _end_pauses(engine)
        monkeypatch.setattr("worker._read", _raise(error))
        assert (load(engine, audit_id).status, _counted(engine, audit_id)) == ("queued", attempt)
        with pytest.raises(type(error)):
            run_audit(audit_id)
    assert load(engine, audit_id).status == "failed"


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "full"), BlobNotFoundError("raw/x.jsonl"), ConnectionResetError()],
    ids=["a full disk of temporary files", "a missing blob", "a cluster that is away"],
)
def test_what_may_be_an_audits_own_fault_counts_after_ten_outages(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    audit_id = new_audit()
    monkeypatch.setattr("worker._read", _raise(error))
    for _ in range(10):
        run_audit(audit_id)
        _end_pauses(engine)
    assert (load(engine, audit_id).status, _counted(engine, audit_id)) == ("queued", 0)
    for _ in range(3):
        with pytest.raises(type(error)):
            run_audit(audit_id)
    assert load(engine, audit_id).status == "failed"


def test_audits_wait_for_a_disk_that_is_not_mounted(
    engine: Engine, config: Config, new_audit: Callable[[], str], tmp_path: Path
) -> None:
    """All blobs are missing, which looks like one blob of each audit."""
    done, waiting = new_audit(), new_audit()
    run_audit(done)
    with engine.begin() as connection:
        of_account = queue_account_audit(connection, load(engine, done).account_id, 30)
    assert of_account is not None
    mounted, elsewhere = tmp_path / "blobs", tmp_path / "elsewhere"
    mounted.rename(elsewhere)
    mounted.mkdir()  # the folder below it
    for audit_id in (waiting, of_account):
        with engine.begin() as connection:  # those in doubt have ended
            connection.execute(update(Audit).where(Audit.id == audit_id).values(outages=10))
        run_audit(audit_id)
        assert (load(engine, audit_id).status, _counted(engine, audit_id)) == ("queued", 0)
    _end_pauses(engine)
    mounted.rmdir()
    elsewhere.rename(mounted)
    for audit_id in (waiting, of_account):
        run_audit(audit_id)
        assert load(engine, audit_id).status == "done"


def test_a_disk_of_temporary_files_that_others_fill_is_an_outage_for_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of the job are gone, and the disk is as full as before."""
    full, usage = OSError(errno.ENOSPC, "full"), shutil.disk_usage(gettempdir())
    own = find_outage(full)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=4_096))
    others = find_outage(full)
    assert own is not None
    assert others is not None
    assert (own.is_certain, others.is_certain) == (False, True)


def test_a_bad_log_is_refused_and_an_outage_behind_it_is_not(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers call every error of a file an unreadable log."""
    hidden, bad = UnreadableLogError("x"), UnreadableLogError("x")
    hidden.__cause__ = OSError(errno.EIO, "")
    audit_ids = [new_audit(), new_audit()]
    for audit_id, error in zip(audit_ids, (hidden, bad), strict=True):
        monkeypatch.setattr("worker._read", _raise(error))
        run_audit(audit_id)
    assert [load(engine, each).status for each in audit_ids] == ["queued", "failed"]


def test_audits_that_run_together_wait_together(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at a silent storage takes ten seconds, so not each of them has its own."""
    audit_ids = [new_audit() for _ in range(24)]
    looked: list[str] = []

    def read(_blobs: BlobStore, claim: Any) -> Any:
        looked.append(claim.audit_id)
        raise FULL

    monkeypatch.setattr("worker._read", read)
    run_audit(audit_ids[0])
    claimed = [each for each in audit_ids if load(engine, each).attempts]
    assert (len(claimed), len(looked)) == (3, 1)
    assert {_counted(engine, each) for each in claimed} == {0}


@pytest.fixture
def held(engine: Engine, new_audit: Callable[[], str]) -> Any:
    """A claim, the last of three."""
    audit_id = new_audit()
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_id).values(attempts=2))
        return claim_audit(connection, audit_id, 0.0)


def test_the_end_of_an_attempt_waits_for_the_database(
    engine: Engine, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def transact(*arguments: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("", None, Exception())
        return real(*arguments)

    monkeypatch.setattr("service.jobs.ending.transact", transact)
    monkeypatch.setattr(ending, "_PAUSE_SECONDS", 0.0)
    ending.postpone(engine, [held], CERTAIN)
    assert (load(engine, held.audit_id).status, _counted(engine, held.audit_id)) == ("queued", 2)


def test_a_lease_that_expired_in_an_outage_is_no_attempt_either(
    engine: Engine, held: Any, config: Config, blobs: BlobStore
) -> None:
    """Two sweepers: one has lost the database, the other was first when it came back."""
    queues = AuditQueues.from_config(config)
    away = Sweeper(config, engine, queues, blobs)
    away._was_away = True
    with engine.connect() as connection:
        away._sweep_audits(connection)
        assert load(engine, held.audit_id).status == "processing"
        with connection.begin():
            assert held.audit_id not in fail_exhausted(connection, 3)
            # The lease was taken before the process could say why it was silent.
            taken = {"status": "queued", "lease_token": None}
            connection.execute(update(Audit).where(Audit.id == held.audit_id).values(taken))
            assert not postpone_audit(connection, held)
            assert held.audit_id not in fail_exhausted(connection, 3)
    assert _counted(engine, held.audit_id) == 2


def test_a_sweeper_that_lost_the_database_extends_leases_once(
    engine: Engine, held: Any, config: Config, blobs: BlobStore
) -> None:
    sweeper = Sweeper(config, engine, AuditQueues.from_config(config), blobs)
    with engine.connect() as connection:
        sweeper._was_away = True
        sweeper._sweep_audits(connection)
        assert load(engine, held.audit_id).status == "processing"
        with connection.begin():
            late = Audit.lease_expires_at - timedelta(seconds=60)
            connection.execute(update(Audit).values(lease_expires_at=late))
        sweeper._sweep_audits(connection)
    assert load(engine, held.audit_id).status == "failed"


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", "processing"),
        ("SELECT no_such_column", "failed"),
    ],
)
def test_only_a_database_that_was_away_extends_leases(
    statement: str, status: str, engine: Engine, held: Any, config: Config, blobs: BlobStore
) -> None:
    sweeper, stopping = Sweeper(config, engine, AuditQueues.from_config(config), blobs), Event()

    def fail(connection: Connection, stopping: Event) -> None:
        stopping.set()
        connection.execute(text(statement))

    sweeper._sweep_while_leading = fail  # type: ignore[method-assign]
    sweeper.run(stopping)
    with engine.connect() as connection:
        sweeper._sweep_audits(connection)
    assert load(engine, held.audit_id).status == status


# Jobs without a row: compactions, and files with the calls of a finding.


def test_a_job_without_a_row_can_be_enqueued_again_soon_after_an_outage(
    config: Config, redis: "Redis"
) -> None:
    """RQ would keep the failed job for ten minutes, and nothing else would ask for it."""
    queues, worker = AuditQueues.from_config(config), QueueWorker(redis, ["call-store"])
    seconds = []
    for _ in range(3):
        assert queues.enqueue_compaction("an-account")
        (job,) = worker.queues[0].jobs
        assert job.func_name == COMPACT_CALLS
        worker.handle_exception(job, BlobError, FULL, None)
        seconds.append(redis.ttl(job.key))
        redis.delete(job.key, worker.queues[0].key)
    assert seconds == [2, 4, 8]


@pytest.fixture
def redis(config: Config) -> "Redis":
    found = Redis.from_url(config.redis_url)
    found.flushdb()
    return found


def test_housekeeping_stops_at_the_first_blob_that_cannot_be_deleted(
    config: Config, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them would hold the sweeper for an hour."""
    tried: list[str] = []

    class Broken:
        def delete(self, key: str) -> None:
            tried.append(key)
            raise FULL

    where = "service.operations.maintenance.housekeeping.purge_old_raws"
    monkeypatch.setattr(where, lambda *_: ["raw/a.jsonl", "raw/b.jsonl"])
    with engine.connect() as connection:
        assert Housekeeping(config, Broken())._purge_raws(connection) == 2  # type: ignore[arg-type]
    assert tried == ["raw/a.jsonl"]


# What is an outage


@each_case(
    ("state", "expected"),
    [
        ("53100", True),  # the disk is full
        ("53300", True),  # too many connections
        ("57P01", True),  # an operator stops the server
        ("58030", True),  # the disk fails
        ("25006", True),  # the server only reads
        ("42501", True),  # as on a read-only file system
        ("40P01", True),  # a deadlock
        ("57014", False),  # a statement took too long, perhaps because of its data
        ("23505", None),  # a row exists
        ("22P02", None),  # bad input
        ("XX000", None),
    ],
)
def test_the_server_says_what_an_outage_is(
    engine: Engine, state: str, expected: bool | None
) -> None:
    raised = text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$")
    with pytest.raises(Exception, match=r".") as caught, engine.begin() as connection:
        connection.execute(raised)
    found = find_outage(caught.value)
    assert (found.is_certain if found else None) is expected
    assert found is None or found.cause == DATABASE


def test_a_server_that_is_away_is_an_outage() -> None:
    away = create_engine("postgresql+psycopg2://x@127.0.0.1:1/x")
    with pytest.raises(OperationalError) as caught:
        away.connect()
    assert find_outage(caught.value) == Outage(DATABASE, "OperationalError")


def test_a_connection_that_broke_may_be_the_statements_fault(engine: Engine) -> None:
    end = text("SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(OperationalError) as caught, engine.connect() as connection:
        connection.execute(end)
    found = find_outage(caught.value)
    assert found is not None
    assert found.cause == DATABASE


def test_a_cluster_that_is_away_may_be_an_outage() -> None:
    grpc = import_module("grpc")
    channel = grpc.insecure_channel("127.0.0.1:1")
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/x")(b"", timeout=5)
    found = find_outage(caught.value)
    assert found is not None
    assert (found.cause, found.is_certain) == (NETWORK, False)


def test_reasons_name_no_address() -> None:
    error = BlobError("S3 responded with status 503")
    error.__cause__ = Exception("http://10.0.0.1/secret-bucket")
    assert find_outage(error) == Outage(STORAGE, "S3 responded with status 503")
