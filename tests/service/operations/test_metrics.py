"""A scrape sends few queries to PostgreSQL, and the docs describe every metric."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter, Histogram
from sqlalchemy import event

from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_engine
from service.core.telemetry import counters
from service.jobs.queues import AuditQueues
from service.models import Account, Audit, Credit, ProviderConnection
from service.models.base import utc_now
from service.models.imports.span_batches import SpanBatch
from service.models.mail.outbox import Mail
from service.models.notices.deliveries import NoticeDelivery
from service.models.notices.targets import NoticeTarget
from service.models.operations.price_updates import PriceUpdate
from service.operations.exporter.database_metrics import ServerMetrics
from service.operations.maintenance.sweeper import Sweeper
from service.operations.price_book import VERSION
from tests.service.support.metrics_table import Shape, documented
from tests.service.support.scenes import Sessions, add_account


@pytest.fixture
def metrics(own_database: Config) -> Iterator[ServerMetrics]:
    engine = make_engine(own_database)
    queues = AuditQueues.from_config(own_database)
    yield ServerMetrics(own_database, engine, queues)
    engine.dispose()


def values(metrics: ServerMetrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics.collect()
        for sample in metric.samples
    }


def test_totals_are_read_once_in_a_while_and_what_waits_each_time(
    own_database: Config, own_sessions: Sessions
) -> None:
    with own_sessions() as session:
        account = add_account(session, email="a@example.org")
        session.add_all([Credit(account_id=account.id) for _ in range(3)])
        session.commit()
    engine = make_engine(own_database)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    facts = ServerMetrics(own_database, engine, AuditQueues.from_config(own_database))
    asked = []
    for _ in range(3):
        statements.clear()
        samples = values(facts)
        asked.append(len([one for one in statements if one.startswith("SELECT audits")]))
        asked.append(len([one for one in statements if "FROM credits" in one]))
        assert samples["tallystick_credits", "granted"] == 3
        assert samples["tallystick_credits", "free"] == 3
    assert asked == [2, 1, 1, 0, 1, 0]
    engine.dispose()


def test_the_docs_describe_every_metric_with_its_type_and_labels(
    metrics: ServerMetrics, own_sessions: Sessions
) -> None:
    _add_waiting_items(own_sessions)
    found: dict[str, Shape] = {}
    for each in _counters():
        ending = "_total" if isinstance(each, Counter) else ""
        found[f"{each._name}{ending}"] = each._type, tuple(sorted(each._labelnames))
    for metric in metrics.collect():
        (labels,) = {tuple(sorted(sample.labels)) for sample in metric.samples}
        found[metric.name] = metric.type, labels
    described = documented()
    # The storage of these settings does not exist yet.
    assert described.pop("tallystick_storage_bytes") == ("gauge", ("kind",))
    # tests/service/operations/backup/ has its test.
    assert described.pop("tallystick_backup_age_seconds") == ("gauge", ())
    assert found == described
    # Without a label, a counter would open its file before the process has its number.
    assert all(one._labelnames for one in _counters())


def test_what_waits_has_an_age_and_accounts_have_ranks_but_no_names(
    metrics: ServerMetrics, own_sessions: Sessions
) -> None:
    _add_waiting_items(own_sessions)
    samples = values(metrics)
    assert samples["tallystick_spans_waiting",] == 7
    assert 50 < samples["tallystick_spans_oldest_seconds",] < 900
    assert samples["tallystick_notices_waiting", "report.ready", "queued"] == 1
    assert 50 < samples["tallystick_notices_oldest_seconds", "report.ready", "queued"] < 900
    assert 50 < samples["tallystick_mails_oldest_seconds", "report_ready", "queued"] < 900
    assert samples["tallystick_tenants_active",] == 2
    assert [samples["tallystick_tenant_records", rank] for rank in "12345"] == [70, 5, 0, 0, 0]
    assert [samples["tallystick_tenant_queued_audits", rank] for rank in "12345"] == [2, 1, 0, 0, 0]
    with own_sessions() as session:
        accounts = session.query(Account).all()
        names = {each.id for each in accounts} | {each.email for each in accounts}
    assert not names & {label for _name, *labels in samples for label in labels}


def test_the_age_of_the_prices_is_infinite_before_the_first_update(
    own_database: Config, metrics: ServerMetrics, own_sessions: Sessions
) -> None:
    assert values(metrics)["tallystick_price_book_age_seconds",] == math.inf
    with own_sessions.begin() as session:
        fetched_at = utc_now() - timedelta(days=4)
        session.add(PriceUpdate(version=VERSION, fetched_at=fetched_at, content=b""))
    age = values(metrics)["tallystick_price_book_age_seconds",]
    assert 4 * 86_400 <= age < 4 * 86_400 + 900
    metrics._config = replace(own_database, prices_update="off")
    assert ("tallystick_price_book_age_seconds",) not in values(metrics)


def test_the_space_connections_and_memory_are_exported(
    own_database: Config, metrics: ServerMetrics, blobs: Path
) -> None:
    samples = values(metrics)
    free, total = (samples["tallystick_storage_bytes", kind] for kind in ("free", "total"))
    assert 0 < free <= total
    assert samples["tallystick_database_connections", "active"] >= 1
    assert samples["tallystick_database_connections_max",] >= 10
    assert samples["tallystick_database_bytes",] > 1_000_000
    assert samples["tallystick_redis_memory_bytes", "used"] > 10_000
    metrics._config = replace(own_database, storage_url="s3://bucket/prefix")
    assert ("tallystick_storage_bytes", "free") not in values(metrics)


def test_a_round_of_the_sweeper_counts_what_it_had_to_do(
    own_database: Config, own_sessions: Sessions
) -> None:
    _add_waiting_items(own_sessions)
    with own_sessions.begin() as session:
        an_hour_ago = utc_now() - timedelta(hours=1)
        lost = session.query(Audit).limit(1).one()
        lost.status, lost.lease_expires_at = "processing", an_hour_ago
        lost.started_at = lost.created_at = an_hour_ago
    config, engine = replace(own_database, prices_update="off"), make_engine(own_database)
    blobs, queues = BlobStore.from_url(config.storage_url), AuditQueues.from_config(config)
    before = {action: _counted(action) for action in ("lease_expired", "audit_woken")}
    with engine.connect() as connection:
        Sweeper(config, engine, queues, blobs).sweep(connection)
    engine.dispose()
    assert _counted("lease_expired") == before["lease_expired"] + 1
    assert _counted("audit_woken") > before["audit_woken"]
    for task in ("audits", "mails", "notices", "imports", "calls", "housekeeping", "prices"):
        assert counters.REGISTRY.get_sample_value("tallystick_sweep_seconds_count", {"task": task})


def _counted(action: str) -> float:
    name = "tallystick_sweeper_actions_total"
    return counters.REGISTRY.get_sample_value(name, {"action": action}) or 0


def _counters() -> list[Counter | Histogram]:
    return [one for one in vars(counters).values() if isinstance(one, Counter | Histogram)]


def _add_waiting_items(sessions: Sessions) -> None:
    """Add two accounts with three audits, a mail, a notice, spans and a connection."""
    minute = utc_now() - timedelta(minutes=1)
    with sessions.begin() as session:
        first, second = (Account(email=f"{name}@example.org") for name in "ab")
        session.add_all([first, second])
        session.flush()
        for account, records in ((first, 30), (first, 40), (second, 5)):
            mine: dict[str, Any] = {"account_id": account.id, "blob_key": "", "source": "ingest"}
            session.add(Audit(**mine, records=records))
        target = NoticeTarget(
            account_id=first.id,
            kind="webhook",
            url="https://a.example",
            secret="whsec_x",
            events=["report.ready"],
        )
        session.add(target)
        session.add(ProviderConnection(account_id=first.id, provider="openai"))
        session.flush()
        notice = NoticeDelivery(
            target_id=target.id, event_id="e", event_type="report.ready", payload={}
        )
        notice.queued_at = minute
        session.add(notice)
        mail = Mail(kind="report_ready", recipient="a@example.org", created_at=minute)
        session.add(mail)
        spans = SpanBatch(account_id=first.id, calls=7, size=0, lines=b"", keys=b"", links=b"")
        spans.received_at = minute
        session.add(spans)
