"""The worker process: it can fork safely, stops in time, and serves its queues."""

import os
import signal
import time
from pathlib import Path

import pytest

from service.jobs.process import give_way
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
