"""Imports that the sweeper cuts from spans: when, into which audits, and each call once."""

import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import ColumnElement, Connection, delete, func, select, update
from sqlalchemy.orm import Session

from service.cli.account import create_account
from service.config import Config
from service.core.blobs import BlobError, BlobStore
from service.core.db import make_engine
from service.models import Audit, SpanBatch
from service.models.audits.capacity import sum_stored_bytes
from service.models.base import utc_now
from service.models.imports import span_batches
from service.models.imports.span_batches import (
    HELD_FOR,
    IMPORT_AGE,
    LEAST_AGE,
    find_waiting,
    request_import,
)
from service.operations.maintenance import span_imports
from service.operations.maintenance.span_imports import SpanImports, close_import
from service.web.otlp.requests import Calls
from tests.cases import each_case
from tests.service.otlp.requests import CHAT, PROTOBUF, as_protobuf, document, read, span
from tests.service.support.scenes import Tenant

TRACES = "/otlp/v1/traces"


pytestmark = pytest.mark.usefixtures("imported_at_once")


class Imports:
    """An account that sends spans, and the imports that are cut from them."""

    def __init__(self, client: FlaskClient, tenant: Tenant, session: Session, blobs: Path) -> None:
        self._client, self._tenant, self.account_id = client, tenant, tenant.account_id
        self.connection = session.connection()
        self.store = BlobStore.from_url(blobs.as_uri())

    def send(self, *spans: dict[str, Any], **options: Any) -> None:
        body = as_protobuf(document(*spans, **options))
        headers = {**self._tenant.writes, "Content-Type": PROTOBUF}
        assert self._client.post(TRACES, data=body, headers=headers).status_code == 200

    def close(self) -> list[tuple[Any, list[dict[str, Any]]]]:
        """Close the import: its audits, each with its records."""
        ids = close_import(self.connection, self.store, self.account_id)
        audits = self.connection.execute(select(Audit.__table__).where(Audit.id.in_(ids))).all()
        return [
            (audit, [json.loads(line) for line in self.store.get(audit.blob_key).splitlines()])
            for audit in audits
        ]

    def close_one(self) -> list[dict[str, Any]]:
        """Close the import, and return the records of its one audit."""
        [(_, records)] = self.close()
        return records

    def age(self, age: timedelta, of: ColumnElement[bool] | None = None) -> None:
        aged = update(SpanBatch).values(received_at=func.now() - age)
        self.connection.execute(aged if of is None else aged.where(of))

    def is_due(self) -> bool:
        return span_batches.list_accounts_due(self.connection, 9) == [self.account_id]


@pytest.fixture
def imports(client: FlaskClient, tenant: Tenant, db_session: Session, blobs: Path) -> Imports:
    return Imports(client, tenant, db_session, blobs)


@pytest.fixture
def store(blobs: Path) -> BlobStore:
    return BlobStore.from_url(blobs.as_uri())


def _nested() -> tuple[dict[str, Any], ...]:
    """A wrapper with usage, a span of a tool in it, and the call in that."""
    wrapper = span({**CHAT, "gen_ai.usage.input_tokens": 5})
    trace = {"traceId": wrapper["traceId"]}
    between = span(
        {"gen_ai.operation.name": "execute_tool"}, parentSpanId=wrapper["spanId"], **trace
    )
    return wrapper, between, span(CHAT, parentSpanId=between["spanId"], **trace)


def test_many_requests_become_one_audit_of_each_environment(
    imports: Imports, db_session: Session
) -> None:
    for _ in range(3):
        imports.send(span(CHAT), span(CHAT), deployment_environment="live")
    ((audit, records),) = imports.close()
    assert (audit.source, audit.status, audit.records) == ("ingest", "queued", 6)
    assert (audit.environment, len(records)) == ("live", 6)
    assert audit.client
    assert audit.raw_bytes == len(imports.store.get(audit.blob_key))
    assert imports.close() == []
    # Environments become audits of their own.
    imports.send(span(CHAT), deployment_environment="live")
    imports.send(span(CHAT), deployment_environment="test")
    found = {audit.environment: audit.records for audit, _ in imports.close()}
    assert found == {"live": 1, "test": 1}
    # Spans count as stored bytes until they are an import.
    imports.send(span(CHAT))
    assert sum_stored_bytes(db_session, imports.account_id) > 60


def test_a_span_counts_once_over_requests_and_imports_and_its_wrapper_never(
    imports: Imports,
) -> None:
    again = span(CHAT)
    imports.send(again, again)
    imports.send(again)
    assert len(imports.close_one()) == 1
    imports.send(again, span(CHAT))
    assert len(imports.close_one()) == 1
    imports.send(again)
    assert imports.close() == []
    # A wrapper that ends in a later request or import counts never.
    wrapper, between, leaf = _nested()
    imports.send(leaf)
    imports.send(between)
    imports.send(wrapper)
    assert [record["prompt_tokens"] for record in imports.close_one()] == [1200]
    imports.send(wrapper)
    assert imports.close() == []


def test_a_span_counts_once_where_more_calls_wait_than_an_import_takes(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys that an import has counted are newer than the calls that already waited."""
    monkeypatch.setattr(span_batches, "MAX_CALLS", 1)
    again = span(CHAT)
    imports.send(again)
    imports.send(span(CHAT))
    imports.send(again)
    for expected in (1, 1, 0):
        assert sum(len(records) for _, records in imports.close()) == expected


@pytest.mark.parametrize(
    ("age", "last_import", "is_due"),
    [
        (LEAST_AGE, None, True),
        (LEAST_AGE - timedelta(seconds=1), None, False),
        (LEAST_AGE, IMPORT_AGE, True),
        (LEAST_AGE, IMPORT_AGE - timedelta(minutes=1), False),
        (IMPORT_AGE, IMPORT_AGE - timedelta(minutes=1), True),
    ],
)
def test_an_import_is_cut_within_seconds_and_the_next_one_after_an_hour(
    imports: Imports,
    monkeypatch: pytest.MonkeyPatch,
    age: timedelta,
    last_import: timedelta | None,
    is_due: bool,
) -> None:
    if last_import is not None:
        imports.send(span(CHAT))
        imports.close()
        imports.age(last_import)
    monkeypatch.setattr(span_batches, "LEAST_AGE", LEAST_AGE)
    imports.send(span(CHAT))
    imports.age(age, SpanBatch.calls > 0)
    assert imports.is_due() is is_due


def test_an_import_can_be_requested(imports: Imports, db_session: Session) -> None:
    imports.send(span(CHAT))
    imports.close()
    assert request_import(db_session, imports.account_id) == 0
    again = span(CHAT)
    imports.send(again)
    assert not imports.is_due()
    for _ in range(2):
        assert request_import(db_session, imports.account_id) == 1
    assert find_waiting(db_session, imports.account_id).is_requested
    assert imports.is_due()
    assert len(imports.close_one()) == 1
    imports.send(again, span(CHAT))
    assert find_waiting(db_session, imports.account_id)[::2] == (2, False)
    assert not imports.is_due()
    assert len(imports.close_one()) == 1


def test_a_request_holds_until_all_that_waited_is_imported(
    imports: Imports, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports.send(span(CHAT))
    imports.close()
    for _ in range(3):
        imports.send(span(CHAT))
    request_import(db_session, imports.account_id)
    for _ in range(3):
        assert imports.is_due()
        with monkeypatch.context() as patched:
            patched.setattr(span_batches, "MAX_CALLS", 1)
            assert len(imports.close()) == 1
    assert not imports.is_due()


def test_a_call_that_a_slower_exporter_sends_after_its_wrapper_counts_alone(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_batches, "LEAST_AGE", LEAST_AGE)
    wrapper, between, leaf = _nested()
    imports.send(span({**CHAT, "gen_ai.usage.input_tokens": 7}))
    imports.age(LEAST_AGE)
    imports.send(between, wrapper)
    assert [record["prompt_tokens"] for record in imports.close_one()] == [7]
    imports.send(leaf)
    imports.age(LEAST_AGE)
    assert [record["prompt_tokens"] for record in imports.close_one()] == [1200]


@each_case("middle", ["known", "late", "never"])
@each_case("around", [{}, {"gen_ai.operation.name": "invoke_agent"}])
@each_case("order", ["wrapper first", "wrapper last", "at once"])
def test_tokens_count_once_over_imports_in_any_order_with_spans_missing(
    imports: Imports, middle: str, around: dict[str, str], order: str
) -> None:
    wrapper = span({**CHAT, **around, "gen_ai.usage.input_tokens": 2_400})
    trace = {"traceId": wrapper["traceId"]}
    step = span({"gen_ai.operation.name": "step"}, parentSpanId=wrapper["spanId"], **trace)
    calls = [span(CHAT, parentSpanId=step["spanId"], **trace) for _ in range(2)]
    steps = {"wrapper first": [[wrapper], calls], "wrapper last": [calls, [wrapper]]}
    sent = steps.get(order, [[*calls, wrapper]])
    if middle == "known":
        sent[0].append(step)
    elif middle == "late":
        sent.append([step])
    found = []
    for spans in sent:
        imports.send(*spans)
        found += [each for _, records in imports.close() for each in records]
    assert sum(each["prompt_tokens"] for each in found) == 2_400
    assert len(found) == (1 if order == "wrapper first" else 2)


def test_a_wrapper_that_ends_hours_after_its_calls_were_imported_counts_never(
    imports: Imports,
) -> None:
    wrapper, between, leaf = _nested()
    imports.send(leaf)
    assert len(imports.close()) == 1
    imports.age(span_batches.CARRIED_FOR - timedelta(minutes=1))
    span_batches.delete_carried(imports.connection)
    imports.send(wrapper)
    assert imports.close() == []
    assert between


def test_an_import_is_cut_when_it_has_enough_calls(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_batches, "MAX_CALLS", 3)
    for _ in range(3):
        imports.send(span(CHAT), span(CHAT))
    assert imports.is_due()
    ((audit, _),) = imports.close()
    assert audit.records == 4  # whole requests, until there are enough
    assert not imports.is_due()


def test_spans_stay_until_the_storage_has_their_import(imports: Imports, blobs: Path) -> None:
    imports.send(span(CHAT))
    in_the_way = blobs / "raw"
    in_the_way.write_bytes(b"")
    with pytest.raises(OSError), imports.connection.begin_nested():  # noqa: PT011 - of any kind
        close_import(imports.connection, imports.store, imports.account_id)
    in_the_way.unlink()
    ((audit, _),) = imports.close()
    assert audit.records == 1


def test_keys_are_carried_until_no_call_waits(imports: Imports) -> None:
    again = span(CHAT)
    imports.send(again)
    imports.close()
    assert imports.connection.execute(select(SpanBatch.calls)).scalars().all() == [0]
    imports.send(again)
    imports.age(span_batches.CARRIED_FOR + timedelta(seconds=1))
    assert span_batches.delete_carried(imports.connection) == 0
    assert imports.close() == []
    imports.age(span_batches.CARRIED_FOR + timedelta(seconds=1))
    assert span_batches.delete_carried(imports.connection) == 1
    # Keys of calls that waited long are not carried.
    imports.send(span(CHAT))
    imports.age(span_batches.CARRIED_FOR + timedelta(seconds=1))
    assert len(imports.close()) == 1
    assert imports.connection.execute(select(SpanBatch.id)).all() == []


def test_the_newest_keys_are_carried(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_imports, "MOST_CARRIED", 1)
    newest = span(CHAT)
    imports.send(span(CHAT))
    imports.send(newest)
    assert len(imports.close_one()) == 2
    imports.send(newest)
    assert imports.close() == []


def test_a_link_that_waits_as_long_as_its_calls_still_finds_the_wrapper(imports: Imports) -> None:
    wrapper, between, leaf = _nested()
    for each in (leaf, between, wrapper):
        imports.send(each)
    imports.age(IMPORT_AGE + timedelta(minutes=1))
    span_batches.delete_carried(imports.connection)
    assert [record["prompt_tokens"] for record in imports.close_one()] == [1200]


def test_an_import_has_a_limit_of_links_and_the_next_one_goes_on(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_batches, "MAX_LINKS", 2)
    link = {"gen_ai.operation.name": "execute_tool"}
    for _ in range(2):
        imports.send(span(link), span(link), span(link))
    imports.send(span(CHAT))
    monkeypatch.setattr(span_imports, "MOST_CARRIED", 1)
    assert imports.close() == []
    assert imports.close() == []
    assert len(imports.close_one()) == 1


def test_an_import_that_fails_stops_no_other_and_is_tried_again_later(
    own_database: Config,
    store: BlobStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = make_engine(own_database)
    monkeypatch.setattr(span_imports, "_ACCOUNTS_AT_ONCE", 1)
    calls = read(as_protobuf(document(span(CHAT))))
    imports = SpanImports(store)
    with engine.connect() as connection:
        broken, whole = (
            _add_old(connection, calls, lines) for lines in (b"canary-lines", calls.lines)
        )
        assert imports.close(connection) == []
        (audit_id,) = imports.close(connection)
        assert len(store.get(f"raw/{audit_id}.jsonl").splitlines()) == 1
        assert imports.close(connection) == []
        with connection.begin():
            assert span_batches.list_accounts_due(connection, 9) == [broken]
    assert caplog.text.count("span_import_failed") == 1
    assert "canary" not in caplog.text
    assert whole not in caplog.text
    engine.dispose()


def _add_old(connection: Connection, calls: Calls, lines: bytes) -> str:
    """Add an account whose import is due; return its ID."""
    with Session(connection) as session, session.begin():
        account = create_account(session, f"{lines[:1].hex()}@example.com", "team")
        session.flush()
        row = SpanBatch(account_id=account.id, calls=1, size=1, lines=lines, keys=calls.keys)
        row.links, row.received_at = b"", utc_now() - 2 * IMPORT_AGE
        session.add(row)
        return account.id


class _Away:
    """A storage that is away, and counts how often it was tried."""

    def __init__(self) -> None:
        self.tries = 0

    def put(self, _key: str, _content: bytes) -> None:
        self.tries += 1
        raise BlobError("S3 didn't respond in time")


def test_an_outage_is_tried_once_for_all_accounts_after_growing_pauses(
    database_url: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try may take ten seconds, which the sweeper doesn't have."""
    away, now = _Away(), [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("service.operations.maintenance.span_imports.time", clock)
    monkeypatch.setattr(span_imports, "delete_carried", lambda _connection: None)
    monkeypatch.setattr(span_imports, "list_accounts_due", lambda *_: ["a", "b", "c"])
    monkeypatch.setattr(span_imports, "close_import", lambda *_: away.put("", b""))
    imports = SpanImports(away)  # type: ignore[arg-type]
    engine = make_engine(replace(config, database_url=database_url))
    tries = []
    with engine.connect() as connection:
        for pause in (2, 4, 8, 16, 32, 60, 60):
            assert imports.close(connection) == []
            now[0] += pause - 0.5
            assert imports.close(connection) == []
            now[0] += 0.5
            tries.append(away.tries)
    engine.dispose()
    assert tries == [1, 2, 3, 4, 5, 6, 7]


def _recent(attributes: dict[str, Any], seconds_ago: int, **fields: Any) -> dict[str, Any]:
    end = time.time_ns() - seconds_ago * 1_000_000_000
    times = {"startTimeUnixNano": str(end - 1_000_000_000), "endTimeUnixNano": str(end)}
    return span(attributes, **times, **fields)


@pytest.mark.parametrize("around", [{}, {"gen_ai.operation.name": "invoke_agent"}])
def test_a_wrapper_that_ends_before_its_calls_leaves_them_their_counts(
    imports: Imports, around: dict[str, str]
) -> None:
    wrapper = _recent({**CHAT, **around, "gen_ai.usage.input_tokens": 2_400}, 12)
    above = {"traceId": wrapper["traceId"], "parentSpanId": wrapper["spanId"]}
    found = []
    for spans in ([wrapper], [_recent(CHAT, 1, **above), _recent(CHAT, 1, **above)], []):
        if spans:
            imports.send(*spans)
        else:
            imports.age(HELD_FOR, SpanBatch.calls > 0)
        found.append([each["prompt_tokens"] for _, own in imports.close() for each in own])
    assert found == [[], [1_200, 1_200], []]


def test_a_wrapper_without_calls_counts_minutes_later_and_at_once_if_asked_for(
    imports: Imports, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = {**CHAT, "gen_ai.operation.name": "invoke_agent"}
    others = [{**CHAT, "gen_ai.operation.name": "chat"}, {**CHAT, "gen_ai.response.id": "r"}]
    imports.send(*(_recent(each, 12) for each in (agent, CHAT, *others)))
    assert len(imports.close_one()) == 2
    assert imports.close() == []
    assert find_waiting(db_session, imports.account_id).calls == 2
    assert request_import(db_session, imports.account_id) == 2
    # The request may be younger than the spans of an import may be.
    with monkeypatch.context() as patched:
        patched.setattr(span_batches, "LEAST_AGE", LEAST_AGE)
        imports.age(LEAST_AGE, SpanBatch.calls > 0)
        assert sum(len(records) for _, records in imports.close()) == 2
    imports.connection.execute(delete(SpanBatch).where(SpanBatch.size == 0))
    imports.send(_recent(agent, 12), _recent(agent, int(HELD_FOR.total_seconds())))
    assert len(imports.close_one()) == 1
    in_minutes = time.time_ns() + int(HELD_FOR.total_seconds() * 1e9)
    clock = SimpleNamespace(time_ns=lambda: in_minutes)
    monkeypatch.setattr("service.operations.maintenance.span_imports.time", clock)
    imports.age(HELD_FOR, SpanBatch.calls > 0)
    assert len(imports.close_one()) == 1
    imports.send(_recent(agent, -400))  # a clock that is wrong
    assert len(imports.close()) == 1
