"""An account's audit on Spark in the job process of a real worker, finished and canceled."""

import json
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from service.models.audits.leases import CANCELED, cancel_audit
from service.models.calls.account_audits import queue_account_audit
from tests.detectors.inputs.frames import NEEDS_JAVA
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.promises import STRESS_SECONDS
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

CALLS = 400
# Java and the first audit of a session, on a busy machine.
SPARK_SECONDS = 300
CANCEL_SECONDS = 30
WORKER = "worker-0"
PROGRESS = "tallystick:progress:*"

pytestmark = [NEEDS_JAVA, pytest.mark.stress, pytest.mark.timeout(STRESS_SECONDS)]


@pytest.fixture(scope="module")
def spark_system() -> Iterator[System]:
    with started_system(
        workers=1, SPARK_MASTER="local[1]", ACCOUNT_POLARS_CALLS="100", **SHORT
    ) as system:
        system.wait_done(system.ingest(1, records=CALLS), 60)
        yield system


def queue(system: System) -> str:
    [account_id] = {row[0] for row in system.rows("SELECT account_id FROM call_files")}
    with system.engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    return audit_id


def find_java(system: System) -> list[psutil.Process]:
    """Return Spark's processes below the worker."""
    below = psutil.Process(system.processes[WORKER].pid).children(recursive=True)
    return [each for each in below if each.name() == "java"]


def is_idle(processes: list[psutil.Process]) -> bool:
    """Return whether they take less than a tenth of a processor for two seconds."""
    before = sum(sum(each.cpu_times()[:2]) for each in processes)
    time.sleep(2)
    return sum(sum(each.cpu_times()[:2]) for each in processes) - before < 0.2


def report_of(system: System, audit_id: str) -> dict[str, Any]:
    [(document,)] = system.rows("SELECT document FROM reports WHERE audit_id = :id", id=audit_id)
    report = json.loads(bytes(document))
    return {name: report[name] for name in ("audit", "findings")}


def test_a_worker_audits_on_spark_with_progress_and_the_same_report(spark_system: System) -> None:
    system = spark_system
    audit_id = queue(system)
    wait_until(lambda: list(system.redis.scan_iter(PROGRESS)), SPARK_SECONDS)
    assert find_java(system)
    system.wait_done([audit_id], SPARK_SECONDS)
    on_spark = report_of(system, audit_id)
    system.restart_process(WORKER, SPARK_MASTER="")
    here = queue(system)
    system.wait_done([here], 60)
    assert report_of(system, here) == on_spark
    assert on_spark["audit"]["records"] == CALLS
    system.restart_process(WORKER)


def test_canceling_the_audit_ends_its_jobs_on_spark(spark_system: System) -> None:
    system = spark_system
    audit_id = queue(system)
    wait_until(lambda: find_java(system), SPARK_SECONDS)
    account_id = system.audit(audit_id).account_id
    with system.engine.begin() as connection:
        assert cancel_audit(connection, account_id, audit_id)
    system.wait_done(system.ingest(1), CANCEL_SECONDS)  # the worker is free
    # PySpark keeps Java for the next audit of the process; nothing runs in it.
    wait_until(lambda: is_idle(find_java(system)), CANCEL_SECONDS)
    audit = system.audit(audit_id)
    assert (audit.status, audit.error) == ("failed", CANCELED)
    assert "Traceback" not in system.log_of(WORKER)
