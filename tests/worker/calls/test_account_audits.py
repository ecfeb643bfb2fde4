"""An account's audit: the calls of its imports, each once, as one log."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, func, insert, select, text, update
from sqlalchemy.orm import Session

import detectors
from detectors.contract import Report, UsageRecord
from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.queues import AuditQueues
from service.models import AccountCalls, Audit, Mail, SpendRow
from service.models.audits.leases import CANCELED, cancel_audit
from service.models.calls.account_audits import list_due_accounts, queue_account_audit
from service.operations.maintenance.sweeper import Sweeper
from tests.detectors.reference.builders import answers, hashed, series
from tests.worker.support.promises import sampled
from tests.worker.support.stored import document, load
from worker import run_audit

NewBatch = Callable[[bytes], str]
START = datetime(2026, 10, 6, 9, tzinfo=UTC)


def records() -> list[UsageRecord]:
    """Return calls of several days with findings, in order of time."""
    found = [*hashed(30, 20.0), *answers([20] * 12, tag="short"), *series([1_800.0] * 400)]
    named = [
        msgspec.structs.replace(record, request_id=f"r{number}")
        for number, record in enumerate(found)
    ]
    return sorted(named, key=lambda record: record.ts)


def body(some: Sequence[UsageRecord]) -> bytes:
    return msgspec.json.encode({"records": [_filled(record) for record in some]})


def _filled(record: UsageRecord) -> dict[str, Any]:
    return {
        name: value for name, value in msgspec.structs.asdict(record).items() if value is not None
    }


def audit_account(engine: Engine, account_id: str, days: int = 30) -> Audit:
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, days)
    assert audit_id is not None
    run_audit(audit_id)
    return load(engine, audit_id)


def report_of(engine: Engine, audit_id: str) -> Report:
    stored = document(engine, audit_id)
    assert stored is not None
    return Report.from_json(stored)


def test_any_number_of_imports_gives_the_report_of_one_log(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    calls = records()
    for first in range(0, len(calls), 150):
        publish(body(calls[first : first + 150]))
    publish(body(calls[100:300]))  # a part of them comes again
    audit = audit_account(engine, account_id)
    report = report_of(engine, audit.id)
    expected = Report.from_json(detectors.audit(calls).to_json())
    assert (audit.status, audit.source, audit.records) == ("done", "account", len(calls))
    assert audit.frame_key is None
    assert report.findings == expected.findings
    assert report.audit.echoes_dropped == 200
    assert audit.total_spend_usd == expected.audit.total_spend_usd
    assert audit.verified_savings_usd == expected.audit.verified_savings_usd
    with Session(engine) as session:
        spent = session.scalar(select(func.sum(SpendRow.cost_usd)))
        mails = session.scalars(select(Mail.dedupe_key)).all()
    assert spent == expected.audit.total_spend_usd
    assert not [key for key in mails if audit.id in (key or "")]


def test_a_canceled_audit_ends_at_its_next_step(
    engine: Engine, account_id: str, publish: NewBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(body(records()))
    monkeypatch.setenv("LEASE_SECONDS", "1")
    steps = list[tuple[int, int]]()

    def cancel(_queues: AuditQueues, audit_id: str, done: int, total: int) -> None:
        steps.append((done, total))
        with engine.begin() as connection:
            assert cancel_audit(connection, account_id, audit_id)
        time.sleep(1.5)  # until the lease is to be renewed, on a busy machine too

    monkeypatch.setattr(AuditQueues, "show_progress", cancel)
    audit = audit_account(engine, account_id)
    assert steps == [(1, 2)]
    assert (audit.status, audit.error, audit.attempts) == ("failed", CANCELED, 1)
    assert document(engine, audit.id) is None


@pytest.mark.parametrize("days", sampled([30, 7, 90], 3))
def test_the_window_ends_with_the_newest_call(
    days: int, engine: Engine, account_id: str, publish: NewBatch
) -> None:
    calls = [
        msgspec.structs.replace(record, ts=START - timedelta(days=day, hours=1), tag=f"t{day}")
        for day, record in enumerate(series([1.0] * 99))
    ]
    publish(body(calls))
    newest = calls[0].ts
    expected = [call for call in calls if call.ts > newest - timedelta(days=days)]
    audit = audit_account(engine, account_id, days)
    assert (audit.records, audit.window_days) == (len(expected), days)


def test_calls_that_arrive_later_are_in_the_next_audit(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    calls = records()
    publish(body(calls[:200]))
    first = audit_account(engine, account_id)
    publish(body(calls[200:]))
    second = audit_account(engine, account_id)
    assert (first.records, second.records) == (200, len(calls))
    assert second.total_spend_usd == detectors.audit(calls).audit.total_spend_usd


def test_an_account_without_calls_has_no_audit(engine: Engine, account_id: str) -> None:
    with engine.begin() as connection:
        assert queue_account_audit(connection, account_id, 30) is None


def test_an_unfinished_audit_of_the_account_is_not_queued_twice(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body(records()[:20]))
    with engine.begin() as connection:
        first = queue_account_audit(connection, account_id, 30)
    with engine.begin() as connection:
        assert queue_account_audit(connection, account_id, 7) == first


@pytest.mark.parametrize(
    ("last_import", "last_audit", "is_due"),
    [
        ("1 minute", None, False),
        ("11 minutes", None, True),
        ("11 minutes", "30 minutes", False),  # at most hourly
        ("11 minutes", "61 minutes", True),
        ("61 minutes", "11 minutes", False),  # nothing new
        ("1 minute", "2 days", True),  # calls never stop
    ],
)
def test_an_audit_of_the_account_is_due(
    last_import: str, last_audit: str | None, is_due: bool, engine: Engine, account_id: str
) -> None:
    def ago(interval: str) -> Any:
        return func.now() - text(f"interval '{interval}'")

    with engine.connect() as connection:
        times = {"first_import_at": func.now(), "last_import_at": ago(last_import)}
        if last_audit:
            # An audit of yesterday would be due again shortly after midnight.
            today = func.date_trunc("day", func.now(), "UTC")
            earlier = ago(last_audit)
            times["last_audit_at"] = earlier if is_due else func.greatest(earlier, today)
        connection.execute(insert(AccountCalls).values(account_id=account_id, **times))
        assert list_due_accounts(connection, 10) == ([account_id] if is_due else [])
        connection.rollback()


def test_the_sweeper_queues_it_once(
    engine: Engine, blobs: BlobStore, config: Config, account_id: str, publish: NewBatch
) -> None:
    publish(body(records()[:20]))
    with engine.begin() as connection:
        earlier = func.now() - text("interval '11 minutes'")
        connection.execute(update(AccountCalls).values(last_import_at=earlier))
    queues = AuditQueues.from_config(config)
    with engine.connect() as connection:
        for _ in range(2):
            Sweeper(config, engine, queues, blobs).sweep(connection)
    with Session(engine) as session:
        (audit,) = session.scalars(select(Audit).where(Audit.source == "account")).all()
    assert (audit.status, audit.window_days) == ("queued", 30)
    run_audit(audit.id)
    assert load(engine, audit.id).total_spend_usd > Decimal(0)
