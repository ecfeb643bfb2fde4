"""SIGTERM ends everything in time: requests get responses, audits finish or are requeued.

Leases last longer here than a test waits and the sweeper sleeps, so only a requeued audit is done.
"""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.worker.conftest import started_system
from tests.worker.support.jobs import RunningJob
from tests.worker.support.promises import sampled
from tests.worker.support.system import System
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import wait_until_ended

STOP_SECONDS = 2
# So long that an audit ends within it on a machine that has much else to do.
PATIENT_SECONDS = 30
# After which the service ends a request whose body has not come.
BODY_SECONDS = 30


@pytest.fixture(scope="module")
def stoppable_system() -> Iterator[System]:
    settings = {"STOP_SECONDS": str(STOP_SECONDS), "LEASE_SECONDS": "3600"}
    with started_system(**settings) as system:
        yield system


@pytest.fixture
def stoppable(stoppable_system: System) -> System:
    stoppable_system.mend()
    return stoppable_system


@pytest.fixture
def patient(stoppable: System) -> Iterator[System]:
    """The same service with a single worker, which has a long grace period."""
    stoppable.stop_workers()
    stoppable.start_process("worker-0", STOP_SECONDS=str(PATIENT_SECONDS))
    yield stoppable
    stoppable.stop_workers()


def _stop_worker_of(system: System, job: RunningJob, *, with_job: bool = False) -> str:
    """SIGTERM to the job's worker and perhaps, as service managers do, to the job as well."""
    name = system.worker_of(job)
    assert name is not None
    system.processes[name].send_signal(signal.SIGTERM)
    if with_job:
        os.kill(job.pid, signal.SIGTERM)
    return name


def test_killed_workers_take_no_audits(stoppable: System) -> None:
    """Their job processes outlive them by a second, and once held their connections open."""
    for name in ("worker-0", "worker-1"):
        stoppable.restart_process(name)
    (audit_id,) = stoppable.ingest()
    stoppable.wait_done([audit_id], 15)
    assert stoppable.audit(audit_id).attempts == 1


@pytest.mark.parametrize(
    "with_job", sampled([True, False], 2, ["all its processes", "worker alone"])
)
def test_an_audit_that_outlasts_the_grace_period_is_requeued_immediately(
    stoppable: System, with_job: bool
) -> None:
    stoppable.delay_audits(60)
    (audit_id,) = stoppable.ingest()
    job = stoppable.wait_for_job(audit_id)
    stoppable.delay_audits(0)
    began = time.monotonic()
    name = _stop_worker_of(stoppable, job, with_job=with_job)
    stoppable.wait_done([audit_id], 10)
    took = time.monotonic() - began

    assert took >= STOP_SECONDS
    assert stoppable.processes[name].wait() == 0
    wait_until_ended(job.pid)
    audit = stoppable.audit(audit_id)
    assert (audit.attempts, audit.uncounted_attempts) == (2, 1)
    assert stoppable.reports_of([audit_id]) == {audit_id: 1}


def test_an_idle_worker_does_not_wait_for_the_grace_to_end(patient: System) -> None:
    process = patient.processes["worker-0"]
    process.send_signal(signal.SIGTERM)
    # One that has only just begun has nothing to end, and simply dies.
    assert process.wait(PATIENT_SECONDS) in (0, -signal.SIGTERM)


def test_a_request_in_flight_is_answered(stoppable: System) -> None:
    body = batch(20)
    connection = http.client.HTTPConnection("127.0.0.1", stoppable.port, timeout=60)
    connection.putrequest("POST", "/api/v1/ingest")
    connection.putheader("Authorization", f"Bearer {stoppable.key}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:100])
    time.sleep(0.5)
    web = stoppable.processes["web"]
    web.send_signal(signal.SIGTERM)
    time.sleep(STOP_SECONDS / 2)
    connection.send(body[100:])
    answer = connection.getresponse()
    assert answer.status == 201
    stoppable.wait_done([json.loads(answer.read())["audit_id"]], 20)
    connection.close()
    assert web.wait() == 0


def test_a_request_that_never_ends_does_not_hold_the_stop_up(stoppable: System) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stoppable.port, timeout=60)
    connection.putrequest("POST", "/api/v1/ingest")
    connection.putheader("Authorization", f"Bearer {stoppable.key}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"{")
    time.sleep(0.5)
    web = stoppable.processes["web"]
    web.send_signal(signal.SIGTERM)
    web.wait(BODY_SECONDS - 5)
    connection.close()
