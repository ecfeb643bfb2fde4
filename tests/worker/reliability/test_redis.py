"""Redis is disposable, and nothing in it runs as code."""

import os
import pickle
import time
from pathlib import Path

from redis import Redis
from rq import Callback, Queue
from rq.serializers import DefaultSerializer, JSONSerializer

from tests.worker.support.promises import Note, always_in_full, in_full_only, scaled
from tests.worker.support.system import System
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import wait_until


@in_full_only
def test_audits_outlive_their_job_hashes(system: System, note: Note, share: float) -> None:
    """Of jobs that wait, half lose their hashes; then everything is flushed.

    By default, the queues are flushed in `test_process.py`.
    """
    system.delay_audits(0.3)
    audit_ids = system.ingest_at_once(scaled(20, share) + 4)
    hashes = sorted(system.redis.keys("rq:job:audit-*"))
    system.redis.delete(*hashes[: scaled(10, share)])
    wait_until(lambda: system.statuses().get("done", 0) > 1, 30)
    system.flush_redis()
    system.wait_done(audit_ids, 60)

    losses = sum(count != 1 for count in system.reports_of(audit_ids).values())
    note("15 deleted job hashes and FLUSHALL lose nothing", len(audit_ids), losses)


@in_full_only
def test_ingest_goes_on_without_redis(system: System, note: Note, share: float) -> None:
    """By default, the next test has a Redis that hangs."""
    system.servers.stop_redis()
    durations, audit_ids, refused = list[float](), list[str](), 0
    ends_at = time.monotonic() + 60 * share
    while time.monotonic() < ends_at:
        began = time.monotonic()
        response = system.post(batch(5, len(audit_ids)))
        durations.append(time.monotonic() - began)
        refused += response.status_code != 201
        audit_ids.append(response.json().get("audit_id"))
        time.sleep(0.3)
    system.servers.start_redis()
    system.wait_done(audit_ids, 120)

    losses = refused + sum(count != 1 for count in system.reports_of(audit_ids).values())
    # Other tests run beside the short one.
    losses += sum(duration > 3 for duration in durations) if share == 1 else 0
    note("15 ingest without Redis answers 201, all done later", len(audit_ids), losses)


def test_ingest_goes_on_when_redis_hangs(system: System) -> None:
    """A process that stands still takes connections and answers nothing."""
    with system.standing_redis():
        audit_ids = system.ingest(3)  # which waits half a minute for an answer, not for ever
    system.wait_done(audit_ids, 60)


@always_in_full
def test_a_pickle_in_the_queue_is_not_executed(system: System, note: Note, occasion: str) -> None:
    canary = system.folder / "canary-pickle"
    _push(system.redis, "os.mkdir", canary, serializer=DefaultSerializer)
    _push(system.redis, "os.mkdir", canary, serializer=DefaultSerializer, queue="uploads")
    system.redis.hset("rq:job:raw-pickle", mapping={"data": pickle.dumps(_Mkdir(canary))})
    system.redis.rpush("rq:queue:ingest", "raw-pickle")
    _assert_audits_go_on(system)
    note("16 a pickle in the queue is not executed", 3, canary.exists())


def test_only_audits_are_executed(system: System) -> None:
    """JSON can still name any function: as the job, and as a callback of a real audit."""
    canary = system.folder / "canary-json"
    _push(system.redis, "os.mkdir", canary, serializer=JSONSerializer)
    _push(system.redis, "worker.run_audit", Path("no-such-audit"), on_success=canary)
    _assert_audits_go_on(system)
    assert not canary.exists()


def test_queue_entries_that_are_no_jobs_are_passed_over(system: System) -> None:
    system.redis.rpush("rq:queue:ingest", "unknown", "audit-1-1", b"\xff\xfe")
    system.redis.hset("rq:job:audit-1-1", mapping={"data": b"\x00", "status": "nonsense"})
    _assert_audits_go_on(system)


class _Mkdir:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[type[object], tuple[object, ...]]:
        return os.mkdir, (str(self._folder),)  # type: ignore[return-value]


def _push(
    redis: "Redis",
    function: str,
    argument: Path,
    *,
    serializer: object = JSONSerializer,
    queue: str = "ingest",
    on_success: Path | None = None,
) -> None:
    callback = Callback("os.mkdir") if on_success else None
    foreign = Queue(queue, connection=redis, serializer=serializer)  # type: ignore[arg-type]
    foreign.enqueue_call(function, args=(str(argument),), on_success=callback)


def _assert_audits_go_on(system: System) -> None:
    system.wait_done(system.ingest(2), 30)
    wait_until(lambda: not system.redis.llen("rq:queue:ingest"), 10)
