"""An account's audit on a real Spark Connect server equals that in memory."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyspark
import pytest
from sqlalchemy import Engine

from detectors.contract import UsageRecord
from service.models.calls.account_audits import queue_account_audit
from tests.detectors.inputs.frames import NEEDS_JAVA
from tests.service.support.live import free_port
from tests.worker.calls.test_account_audits import audit_account, records, report_of
from tests.worker.support.stored import load

_START_SECONDS = 120


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """Start Spark Connect on loopback; return its address."""
    port, home = free_port(), Path(pyspark.__file__).parent
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    log = (tmp_path / "server.log").open("wb")
    server = subprocess.Popen(
        [*command, "spark-internal"],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait(port, server, tmp_path / "server.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"Spark Connect did not start:\n{log.read_text()[-2000:]}")


@NEEDS_JAVA
@pytest.mark.stress
def test_polars_and_spark_connect_agree_on_one_store(
    engine: Engine,
    account_id: str,
    publish_records: Callable[[Sequence[UsageRecord]], str],
    remote: str,
) -> None:
    """The audit has a process of its own, because a process has classic sessions or remote ones."""
    calls = records()
    publish_records(calls)
    in_memory = report_of(engine, audit_account(engine, account_id).id)
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    subprocess.run(
        [sys.executable, "-c", f"import worker; worker.run_audit({audit_id!r})"],
        env={**os.environ, "ACCOUNT_POLARS_CALLS": "100", "SPARK_REMOTE": remote},
        check=True,
        timeout=240,
    )
    audit = load(engine, audit_id)
    assert (audit.status, audit.records) == ("done", len(calls))
    assert report_of(engine, audit_id) == in_memory
    assert in_memory.findings
