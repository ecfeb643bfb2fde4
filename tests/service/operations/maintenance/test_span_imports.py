"""Imports that the sweeper cuts from spans: when, into which audits, and each call once."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, select, update
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.models import Audit, SpanBatch
from service.models.audits.capacity import sum_stored_bytes
from service.models.base import utc_now
from service.models.imports import span_batches
from service.models.imports.span_batches import FIRST_IMPORT_AGE, IMPORT_AGE
from service.operations.maintenance.span_imports import close_import
from tests.service.otlp.requests import CHAT, PROTOBUF, as_protobuf, document, span
from tests.service.support.scenes import Tenant

TRACES = "/otlp/v1/traces"


@pytest.fixture
def store(blobs: Path) -> BlobStore:
    return BlobStore.from_url(blobs.as_uri())


@pytest.fixture
def connection(db_session: Session) -> Connection:
    return db_session.connection()


def _send(client: FlaskClient, tenant: Tenant, *spans: dict[str, Any], **options: Any) -> None:
    body = as_protobuf(document(*spans, **options))
    headers = {**tenant.writes, "Content-Type": PROTOBUF}
    assert client.post(TRACES, data=body, headers=headers).status_code == 200


def _close(
    connection: Connection, store: BlobStore, tenant: Tenant
) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Close the import: its audits, each with its records."""
    ids = close_import(connection, store, tenant.account_id)
    audits = connection.execute(select(Audit.__table__).where(Audit.id.in_(ids))).all()
    return [
        (audit, [json.loads(line) for line in store.get(audit.blob_key).splitlines()])
        for audit in audits
    ]


def _age(connection: Connection, age: timedelta) -> None:
    connection.execute(update(SpanBatch).values(received_at=utc_now() - age))


def test_many_requests_become_one_audit_of_a_batch(
    client: FlaskClient, tenant: Tenant, connection: Connection, store: BlobStore
) -> None:
    for _ in range(3):
        _send(client, tenant, span(CHAT), span(CHAT), deployment_environment="live")
    ((audit, records),) = _close(connection, store, tenant)
    assert (audit.source, audit.status, audit.records) == ("ingest", "queued", 6)
    assert (audit.environment, len(records)) == ("live", 6)
    assert audit.client
    assert audit.raw_bytes == len(store.get(audit.blob_key))
    assert _close(connection, store, tenant) == []


def test_environments_become_audits_of_their_own(
    client: FlaskClient, tenant: Tenant, connection: Connection, store: BlobStore
) -> None:
    _send(client, tenant, span(CHAT), deployment_environment="live")
    _send(client, tenant, span(CHAT), deployment_environment="test")
    found = {audit.environment: audit.records for audit, _ in _close(connection, store, tenant)}
    assert found == {"live": 1, "test": 1}


def test_a_span_counts_once_over_requests_and_imports(
    client: FlaskClient, tenant: Tenant, connection: Connection, store: BlobStore
) -> None:
    again = span(CHAT)
    _send(client, tenant, again, again)
    _send(client, tenant, again)
    ((_, records),) = _close(connection, store, tenant)
    assert len(records) == 1
    _send(client, tenant, again, span(CHAT))
    ((_, records),) = _close(connection, store, tenant)
    assert len(records) == 1
    _send(client, tenant, again)
    assert _close(connection, store, tenant) == []


def test_a_wrapper_that_ends_in_a_later_request_or_import_counts_never(
    client: FlaskClient, tenant: Tenant, connection: Connection, store: BlobStore
) -> None:
    wrapper = span({**CHAT, "gen_ai.usage.input_tokens": 5})
    trace = {"traceId": wrapper["traceId"]}
    between = span(
        {"gen_ai.operation.name": "execute_tool"}, parentSpanId=wrapper["spanId"], **trace
    )
    leaf = span(CHAT, parentSpanId=between["spanId"], **trace)
    _send(client, tenant, leaf)
    _send(client, tenant, between)
    _send(client, tenant, wrapper)
    ((_, records),) = _close(connection, store, tenant)
    assert [record["prompt_tokens"] for record in records] == [1200]
    _send(client, tenant, wrapper)
    assert _close(connection, store, tenant) == []


@pytest.mark.parametrize(
    ("age", "has_imports", "is_due"),
    [
        (IMPORT_AGE, True, True),
        (IMPORT_AGE - timedelta(minutes=9), True, False),
        (FIRST_IMPORT_AGE, False, True),
        (timedelta(), False, False),
    ],
)
def test_an_import_is_cut_after_an_hour_and_the_first_one_after_a_minute(
    client: FlaskClient,
    tenant: Tenant,
    connection: Connection,
    store: BlobStore,
    monkeypatch: pytest.MonkeyPatch,
    age: timedelta,
    has_imports: bool,
    is_due: bool,
) -> None:
    _send(client, tenant, span(CHAT))
    _age(connection, age + timedelta(minutes=5) if is_due else age)
    if has_imports:
        monkeypatch.setattr(span_batches, "FIRST_IMPORT_AGE", timedelta(days=1))
    assert (tenant.account_id in span_batches.list_accounts_due(connection, 9)) is is_due


def test_an_import_is_cut_when_it_has_enough_calls(
    client: FlaskClient,
    tenant: Tenant,
    connection: Connection,
    store: BlobStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_batches, "MAX_CALLS", 3)
    for _ in range(3):
        _send(client, tenant, span(CHAT), span(CHAT))
    assert span_batches.list_accounts_due(connection, 9) == [tenant.account_id]
    ((audit, _),) = _close(connection, store, tenant)
    assert audit.records == 4  # whole requests, until there are enough
    assert span_batches.list_accounts_due(connection, 9) == []


def test_spans_stay_until_the_storage_has_their_import(
    client: FlaskClient,
    tenant: Tenant,
    connection: Connection,
    store: BlobStore,
    blobs: Path,
) -> None:
    _send(client, tenant, span(CHAT))
    in_the_way = blobs / "raw"
    in_the_way.write_bytes(b"")
    with pytest.raises(OSError), connection.begin_nested():  # noqa: PT011 - of any kind
        close_import(connection, store, tenant.account_id)
    in_the_way.unlink()
    ((audit, _),) = _close(connection, store, tenant)
    assert audit.records == 1


def test_spans_count_as_stored_bytes_until_they_are_an_import(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    _send(client, tenant, span(CHAT))
    assert sum_stored_bytes(db_session, tenant.account_id) > 60


def test_carried_keys_end(
    client: FlaskClient, tenant: Tenant, connection: Connection, store: BlobStore
) -> None:
    _send(client, tenant, span(CHAT))
    _close(connection, store, tenant)
    assert connection.execute(select(SpanBatch.calls)).scalars().all() == [0]
    _age(connection, span_batches.CARRIED_FOR + timedelta(seconds=1))
    assert span_batches.delete_carried(connection) == 1
