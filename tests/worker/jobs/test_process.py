"""The worker process: it can fork safely, stops in time, and serves its queues."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until


def test_its_parent_still_has_one_thread_after_jobs(system: System) -> None:
    """What forks again and again must hold no thread's locks."""
    system.wait_done(system.ingest(2), 20)
    for name in ("worker-0", "worker-1"):
        process = Path(f"/proc/{system.processes[name].pid}")
        assert len(list((process / "task").iterdir())) == 1
        assert "obstore" not in (process / "maps").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_lets_the_running_audit_finish(system: System, number: int) -> None:
    """Sent to every process at once, as service managers do."""
    system.delay_audits(1.0)
    (audit_id,) = system.ingest()
    job = system.wait_for_job(audit_id)
    worker = system.worker_of(job)
    assert worker is not None
    for pid in (system.processes[worker].pid, job.pid):
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
    system.servers.restart_postgres(immediate=True)
    system.wait_done([audit_id], 30)
    assert system.reports_of([audit_id]) == {audit_id: 1}


def test_its_logs_hold_no_data(system: System) -> None:
    system.wait_done(system.ingest(2), 20)
    logs = system.log_of("worker-0") + system.log_of("worker-1")
    assert "audit_done" in logs
    assert "gpt-4o" not in logs
    assert "route-1" not in logs


def test_redis_is_left_nearly_empty(system: System) -> None:
    """Everything that outlives a job expires, so Redis does not fill."""
    system.wait_done(system.ingest(4), 20)
    wait_until(lambda: not system.running_jobs(), 10)

    def kept() -> list[bytes | str]:
        found = system.redis.keys("rq:*")
        return [key for key in found if b"audit-" in key and system.redis.ttl(key) == -1]

    wait_until(lambda: not kept(), 10)


SESSION = Path("/proc/self/autogroup")
GIVE_WAY = f"""
import os
from pathlib import Path
from service.jobs.process import give_way
give_way()
print(os.nice(0), Path("{SESSION}").read_text())
"""


@pytest.mark.skipif(not SESSION.exists(), reason="this kernel has no autogroups")
@pytest.mark.parametrize("has_own", [True, False], ids=["its own", "a shared one"])
def test_a_worker_is_nice_to_other_sessions_if_it_has_its_own(has_own: bool) -> None:
    before = SESSION.read_text().split()
    command = (sys.executable, "-c", GIVE_WAY)
    printed = subprocess.check_output(command, start_new_session=has_own, text=True)
    niceness, *session = printed.split()
    assert niceness == "10"
    if before:  # the kernel shows nothing where a container has its own share
        assert session[-1] == ("8" if has_own else before[-1])
