"""The process that audits stays ready between jobs, and is replaced when it should be."""

import os
import signal

import psutil
import pytest

from service.jobs import job_process
from tests.worker.support.system import System
from tests.worker.support.waiting import kill, wait_until


def _job_processes(system: System) -> list[int]:
    """The processes of the workers' jobs, ready or running."""
    workers = [one for name, one in system.processes.items() if name.startswith("worker")]
    return [child.pid for one in workers for child in psutil.Process(one.pid).children()]


def test_audits_share_a_process_and_a_stop_signal_to_it_loses_none(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    before = set(_job_processes(system))
    for _ in range(3):
        system.wait_done(system.ingest(), 20)
    assert set(_job_processes(system)) == before
    for pid in before:
        os.kill(pid, signal.SIGTERM)
    for _ in range(3):
        system.wait_done(system.ingest(), 20)
    wait_until(lambda: not before & set(_job_processes(system)), 10)


def test_a_process_that_is_killed_while_it_waits_is_replaced(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    for pid in _job_processes(system):
        kill(pid)
    audit_ids = system.ingest(2)
    system.wait_done(audit_ids, 20)
    assert system.reports_of(audit_ids) == dict.fromkeys(audit_ids, 1)
    assert {system.audit(one).attempts for one in audit_ids} == {1}


def test_a_process_that_waits_ends_with_its_worker(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    processes = _job_processes(system)
    for name in ("worker-0", "worker-1"):
        system.kill_process(name)
    wait_until(lambda: not any(map(psutil.pid_exists, processes)), 20)


def test_a_process_is_replaced_after_many_jobs_or_once_it_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What replaces it is the same as after a stop signal."""
    monkeypatch.setattr(job_process, "MOST_BYTES", 1 << 40)
    assert not job_process.has_worked_enough(job_process.MOST_JOBS - 1)
    assert job_process.has_worked_enough(job_process.MOST_JOBS)
    monkeypatch.setattr(job_process, "MOST_BYTES", 1)
    assert job_process.has_worked_enough(0)
