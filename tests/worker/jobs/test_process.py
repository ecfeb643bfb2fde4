"""The worker process: it can fork safely, stops in time, and serves its queues."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from types import FrameType

import pytest
from redis import Connection, RedisError
from rq.worker import WorkerStatus

from service.config import Config
from service.core.redis import connect
from service.jobs.process import QueueWorker, give_way
from service.jobs.queues import AuditQueues
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until


def test_jobs_leave_one_thread_no_data_in_logs_and_nearly_nothing_in_redis(system: System) -> None:
    """What forks again and again must hold no thread's locks, and Redis must not fill."""
    system.wait_done(system.ingest(4), 20)
    for name in ("worker-0", "worker-1"):
        process = Path(f"/proc/{system.processes[name].pid}")
        assert len(list((process / "task").iterdir())) == 1
        assert "obstore" not in (process / "maps").read_text()
    logs = system.log_of("worker-0") + system.log_of("worker-1")
    assert "audit_done" in logs
    assert "gpt-4o" not in logs
    assert "route-1" not in logs
    wait_until(lambda: not system.running_jobs(), 10)

    def kept() -> list[bytes | str]:
        found = system.redis.keys("rq:*")
        return [key for key in found if b"audit-" in key and system.redis.ttl(key) == -1]

    wait_until(lambda: not kept(), 10)


@pytest.mark.parametrize(("number", "with_job"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_stop_signal_lets_the_running_audit_finish(
    system: System, number: int, with_job: bool
) -> None:
    """Sent to every process at once, as service managers do, or to the worker alone."""
    system.delay_audits(1.0)
    (audit_id,) = system.ingest()
    job = system.wait_for_job(audit_id)
    worker = system.worker_of(job)
    assert worker is not None
    for pid in (system.processes[worker].pid, *([job.pid] if with_job else [])):
        os.kill(pid, number)
    assert system.processes[worker].wait() == 0
    assert system.audit(audit_id).status == "done"
    assert system.audit(audit_id).attempts == 1


def test_a_worker_without_redis_still_stops(system: System) -> None:
    system.servers.stop_redis()
    time.sleep(1.5)
    system.processes["worker-0"].terminate()
    # One that is still starting, or that looks for Redis, has nothing to finish.
    assert system.processes["worker-0"].wait() in (0, -signal.SIGTERM)


@pytest.fixture
def worker_here(config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueueWorker]:
    """A worker for this process, whose signals and environment it changes."""
    for name in ("RQ_JOB_ID", "RQ_WORKER_ID"):
        monkeypatch.setenv(name, "")
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    redis = connect(config, socket_timeout=None)
    redis.flushdb()
    yield QueueWorker(redis, ["mail", "notices"])
    for number, handler in before.items():
        signal.signal(number, handler)
    redis.close()


@pytest.mark.parametrize(
    ("moment", "jobs"),
    [("dequeue_any", 0), ("get_provider_manager", 0), ("from_queue_key", 1)],
    ids=["before it waits", "where redis-py drops any error", "with a job in its hands"],
)
def test_a_stop_signal_between_two_jobs_is_never_lost_nor_is_a_job(
    config: Config, worker_here: QueueWorker, moment: str, jobs: int
) -> None:
    worker, me, sent = worker_here, os.getpid(), list[str]()
    for number in range(jobs):
        AuditQueues.from_config(config).enqueue_mail(f"unknown-{number}")

    def send_signal(frame: FrameType, event: str, _argument: object) -> None:
        is_moment = event == "call" and frame.f_code.co_name == moment
        if is_moment and worker.get_state() == WorkerStatus.IDLE and not sent:
            sent.append(moment)
            os.kill(me, signal.SIGTERM)

    # A second signal ends a worker that has lost the first, and fails the test.
    late = Timer(20, os.kill, (me, signal.SIGTERM))
    late.start()
    sys.setprofile(send_signal)
    try:
        worker.work(logging_level=None)
    finally:
        sys.setprofile(None)
        late.cancel()
    assert sent
    assert worker.is_stop_requested
    finished = worker.queues[0].finished_job_registry
    assert finished.count == jobs


def test_a_worker_stops_in_time_if_redis_no_longer_answers(worker_here: QueueWorker) -> None:
    worker_here.connection.ping()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = dict(zip(("host", "port"), silent.getsockname(), strict=True))
        pool = worker_here.connection.connection_pool
        pool.connection_class = Connection
        pool.connection_kwargs = {**pool.connection_kwargs, **address}
        pool.connection_kwargs.pop("path", None)
        pool.disconnect()
        pool.reset()
        began = time.monotonic()
        with pytest.raises(RedisError):
            worker_here.teardown()  # type: ignore[no-untyped-call]
        assert time.monotonic() - began < 10


def test_the_queues_are_served_in_turn(system: System) -> None:
    """An upload behind a long line of ingest batches does not wait for all of them."""
    with system.without_workers():
        audit_ids = system.ingest(5)
        system.execute("UPDATE audits SET source = 'upload' WHERE id = :id", id=audit_ids[-1])
        system.flush_redis()
        system.execute("UPDATE audits SET enqueued_at = NULL")
        wait_until(lambda: system.redis.llen("rq:queue:uploads") == 1, 10)
        wait_until(lambda: system.redis.llen("rq:queue:ingest") == 4, 10)
    system.wait_done(audit_ids, 60)
    order = system.rows("SELECT id FROM audits ORDER BY started_at")
    assert audit_ids[-1] in [row.id for row in order[:3]]


def test_an_audit_survives_a_database_that_restarts_beside_it(system: System) -> None:
    system.delay_audits(1.0)
    (audit_id,) = system.ingest()
    system.wait_for_job(audit_id)
    system.servers.crash_postgres()
    system.wait_done([audit_id], 30)
    assert system.reports_of([audit_id]) == {audit_id: 1}


SESSION = Path("/proc/self/autogroup")


@pytest.mark.skipif(not SESSION.exists(), reason="this kernel has no autogroups")
@pytest.mark.parametrize("has_own", [True, False], ids=["its own", "a shared one"])
def test_a_worker_is_nice_to_other_sessions_if_it_has_its_own(has_own: bool) -> None:
    before = SESSION.read_text().split()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if has_own:
                os.setsid()
            give_way()
            os.write(writing, f"{os.nice(0)} {SESSION.read_text()}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    niceness, *session = os.read(reading, 1_000).decode().split()
    os.close(reading)
    os.close(writing)
    assert niceness == "10"
    if before:  # the kernel shows nothing where a container has its own share
        assert session[-1] == ("8" if has_own else before[-1])
