"""The process that audits stays ready between jobs, and is replaced when it should be."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.worker.support.system import System
from tests.worker.support.waiting import kill, wait_until


def _job_processes(system: System) -> list[int]:
    """The processes of the workers' jobs, ready or running."""
    workers = [one for name, one in system.processes.items() if name.startswith("worker")]
    return [child.pid for one in workers for child in psutil.Process(one.pid).children()]


def test_audits_share_a_process(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    before = set(_job_processes(system))
    for _ in range(4):
        system.wait_done(system.ingest(), 20)
    assert set(_job_processes(system)) == before


def test_a_process_that_is_killed_while_it_waits_is_replaced(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    for pid in _job_processes(system):
        kill(pid)
    audit_ids = system.ingest(4)
    system.wait_done(audit_ids, 20)
    assert system.reports_of(audit_ids) == dict.fromkeys(audit_ids, 1)
    assert {system.audit(one).attempts for one in audit_ids} == {1}


def test_a_process_that_waits_ends_with_its_worker(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    processes = _job_processes(system)
    for name in ("worker-0", "worker-1"):
        system.kill_process(name)
    wait_until(lambda: not any(map(psutil.pid_exists, processes)), 20)


def test_a_stop_signal_to_a_process_that_waits_loses_no_audit(system: System) -> None:
    wait_until(lambda: len(_job_processes(system)) == 2, 10)
    before = set(_job_processes(system))
    for pid in before:
        os.kill(pid, signal.SIGTERM)
    for _ in range(4):
        system.wait_done(system.ingest(), 20)
    wait_until(lambda: not before & set(_job_processes(system)), 10)


@pytest.fixture
def replacing(system: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """One worker with other settings, in place of the two that are always there."""
    system.stop_workers()
    system.start_process("worker-0", **request.param)
    yield system
    system.stop_workers()


@pytest.mark.parametrize(
    ("replacing", "audits", "processes"),
    # A second wake-up for an audit that has just been claimed is a job, too.
    [({"JOB_PROCESS_JOBS": "2"}, 4, (2, 3)), ({"JOB_PROCESS_BYTES": "1"}, 2, (2,))],
    ids=["after a number of jobs", "once it is large"],
    indirect=["replacing"],
)
def test_a_process_is_replaced(replacing: System, audits: int, processes: tuple[int, ...]) -> None:
    seen = set[int]()
    for _ in range(audits):
        replacing.delay_audits(0.3)
        (audit_id,) = replacing.ingest()
        seen.add(replacing.wait_for_job(audit_id).pid)
        replacing.wait_done([audit_id], 20)
    assert len(seen) in processes
