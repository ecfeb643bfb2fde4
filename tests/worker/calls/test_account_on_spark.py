"""An account's audit on Spark: the files of the account's calls, and what Spark needs."""

import socket
import sys
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, update

from detectors.contract import UsageRecord
from service.models import Audit
from tests.detectors.inputs.frames import NEEDS_JAVA, spark
from tests.worker.calls.test_account_audits import audit_account, records, report_of
from tests.worker.support.stored import load
from worker import run_audit

Publish = Callable[[Sequence[UsageRecord]], str]


@pytest.fixture
def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNT_POLARS_CALLS", "100")


def publish_all(publish: Publish) -> int:
    """Publish imports that overlap and don't have the same optional columns."""
    calls = records()
    publish([replace(call, environment="test", latency_ms=3.0) for call in calls[:300]])
    publish(calls[200:])
    return len(calls)


def error_of(audit: Audit) -> str:
    assert (audit.status, audit.attempts) == ("failed", 1)
    assert audit.error is not None
    return audit.error


@NEEDS_JAVA
@pytest.mark.stress
def test_polars_and_spark_agree_on_one_store(
    engine: Engine, account_id: str, publish_records: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = publish_all(publish_records)
    in_memory = report_of(engine, audit_account(engine, account_id).id)
    spark()  # the session that the tests share
    monkeypatch.setenv("ACCOUNT_POLARS_CALLS", "100")
    monkeypatch.setenv("SPARK_MASTER", "local[1]")
    audit = audit_account(engine, account_id)
    assert (audit.status, audit.records) == ("done", calls)
    assert report_of(engine, audit.id) == in_memory
    assert in_memory.findings


@pytest.mark.usefixtures("few_in_memory")
def test_without_spark_an_account_is_audited_here_and_else_what_is_missing_is_named(
    engine: Engine, account_id: str, publish_records: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stays down fails the audit after ten outages."""
    calls = publish_all(publish_records)
    audit = audit_account(engine, account_id)
    assert (audit.status, audit.records) == ("done", calls)
    with monkeypatch.context() as missing:
        missing.setenv("SPARK_MASTER", "local[1]")
        missing.setitem(sys.modules, "detectors.frames.spark", None)
        message = error_of(audit_account(engine, account_id))
    assert "pip install 'tallystick-server[spark]'" in message
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}")
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    audit = audit_account(engine, account_id)
    assert (audit.status, audit.outages, audit.uncounted_attempts) == ("queued", 1, 1)
    with engine.begin() as connection:
        last = {"outages": 10, "resume_at": None, "attempts": 0, "uncounted_attempts": 0}
        connection.execute(update(Audit).where(Audit.id == audit.id).values(last))
    run_audit(audit.id)
    message = error_of(load(engine, audit.id))
    assert "SPARK_REMOTE can't be reached" in message
