"""POST /otlp/v1/traces, /logs and /metrics: credentials, encodings, answers, and what is stored."""

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from service.models import Account, SpanBatch
from tests.cases import each_case
from tests.service.otlp.requests import CHAT, JSON, PROTOBUF, as_json, as_protobuf, document, span
from tests.service.support.scenes import Sessions, Tenant, add_tenant

TRACES, LOGS, METRICS = "/otlp/v1/traces", "/otlp/v1/logs", "/otlp/v1/metrics"
BODY = as_protobuf(document(span(CHAT), service_name="support-bot"))
CANARY = "canary-c0ffee"
ENCODERS = {PROTOBUF: as_protobuf, JSON: as_json}


def _send(
    client: FlaskClient, tenant: Tenant, body: bytes = BODY, kind: str = PROTOBUF, **headers: str
) -> Any:
    sent = {**tenant.writes, "Content-Type": kind, **headers}
    return client.post(TRACES, data=body, headers=sent)


def _partial(answer: Any, kind: str) -> tuple[int, str]:
    """Return the number of rejected spans and the message of a partial success."""
    if kind == JSON:
        partial = answer.get_json()["partialSuccess"]
        return int(partial["rejectedSpans"]), partial["errorMessage"]
    said = ExportTraceServiceResponse.FromString(answer.data).partial_success
    return said.rejected_spans, said.error_message


def _stored(session: Session) -> list[dict[str, Any]]:
    rows = session.scalars(select(SpanBatch).order_by(SpanBatch.id)).all()
    packed = [row.lines for row in rows if row.lines]
    lines = [line for each in packed for line in zlib.decompress(each).splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_call_is_stored_before_it_is_acknowledged(
    client: FlaskClient, tenant: Tenant, db_session: Session, kind: str, packed: bool
) -> None:
    body = ENCODERS[kind](document(span(CHAT), service_name="support-bot"))
    encoding = {"Content-Encoding": "gzip"} if packed else {}
    answer = _send(client, tenant, gzip.compress(body) if packed else body, kind, **encoding)
    assert (answer.status_code, answer.mimetype) == (200, kind)
    assert answer.data.strip() == (b"{}" if kind == JSON else b"")
    (record,) = _stored(db_session)
    assert record.pop("request_id")
    assert record == {
        "ts": "2026-03-02T09:15:00Z",
        "provider": "openai",
        "model": "gpt-4o-mini",
        "prompt_tokens": 1200,
        "completion_tokens": 85,
        "latency_ms": 1250.0,
        "tag": "support-bot",
    }


def test_a_span_that_is_no_call_stores_nothing(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    body = as_protobuf(document(span({"http.request.method": "GET", "url.full": CANARY})))
    assert _send(client, tenant, body).status_code == 200
    assert _stored(db_session) == []


def test_spans_beyond_the_limits_of_a_record_are_rejected_and_the_others_count(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    too_many = {**CHAT, "gen_ai.usage.input_tokens": 10**13}
    spans = (
        span(CHAT),
        span(too_many),
        span(CHAT, traceId="00"),
        span(CHAT, startTimeUnixNano="5"),
    )
    answer = _send(client, tenant, as_protobuf(document(*spans)))
    partial = ExportTraceServiceResponse.FromString(answer.data).partial_success
    assert partial.rejected_spans == 3
    assert "rejected" in partial.error_message
    assert len(_stored(db_session)) == 1
    answer = _send(client, tenant, as_json(document(span(too_many))), JSON)
    assert answer.get_json()["partialSuccess"]["rejectedSpans"] == "1"


def test_an_answer_says_where_the_meaning_of_input_tokens_is_assumed(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    cached = {
        **CHAT,
        "gen_ai.provider.name": "anthropic",
        "gen_ai.usage.cache_read.input_tokens": 900,
    }
    answer = _send(client, tenant, as_json(document(span(cached))), JSON)
    partial = answer.get_json()["partialSuccess"]
    assert partial["rejectedSpans"] == "0"
    assert "include the cached ones" in partial["errorMessage"]
    assert [record["input_assumed"] for record in _stored(db_session)] == [1]
    known = document(span(cached), scope="pydantic-ai", version="2.70.0")
    assert _send(client, tenant, as_json(known), JSON).get_json() == {}
    assert "input_assumed" not in _stored(db_session)[1]


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_an_answer_names_the_numbers_that_we_dont_know(
    client: FlaskClient, tenant: Tenant, db_session: Session, kind: str
) -> None:
    odd = {"gen_ai.usage.hologram_units": 41_200, "gen_ai.usage.Dear CANARY": 3}
    answer = _send(client, tenant, ENCODERS[kind](document(span({**CHAT, **odd}))), kind)
    assert _partial(answer, kind) == (
        0,
        "Some spans have usage attributes that we don't know: gen_ai.usage.hologram_units."
        " Their cost may be too low.",
    )
    (record,) = _stored(db_session)
    assert (record["unknown_fields"], record["unknown_largest"]) == (
        "* gen_ai.usage.hologram_units",
        41_200,
    )


def test_metrics_are_read_or_refused_like_other_requests(
    client: FlaskClient, tenant: Tenant
) -> None:
    def send(body: bytes, kind: str, **headers: str) -> Any:
        sent = {**tenant.writes, "Content-Type": kind, **headers}
        return client.post(METRICS, data=body, headers=sent)

    assert send(b"", PROTOBUF).data == b""
    assert send(b"{}", JSON).get_json() == {}
    gzipped = {"Content-Encoding": "gzip"}
    assert send(gzip.compress(b"{}"), JSON, **gzipped).get_json() == {}
    refused = [
        send(CANARY.encode(), PROTOBUF),
        send(b'{"resourceMetrics": 5}', JSON),
        send(b'{"resourceLogs": []}', JSON),
        send(b"{}", "text/plain"),
        send(b"\x0a\x00" * 60_000, PROTOBUF),
        send(b"{}", JSON, Authorization=""),
    ]
    assert [answer.status_code for answer in refused] == [400, 400, 400, 415, 413, 401]
    assert "no resourceMetrics" in refused[2].get_json()["message"]
    assert not any(CANARY in answer.text for answer in refused)


REFUSED: list[tuple[bytes, dict[str, str], int, int]] = [
    (b"\x0a\x05abc", {}, 400, 3),
    (b"\xff" * 20, {}, 400, 3),
    (b"\x0a\x04\x12\x02\x12\x05", {}, 400, 3),
    (b"{", {"Content-Type": JSON}, 400, 3),
    (b'{"resourceSpans": 5}', {"Content-Type": JSON}, 400, 3),
    (b"[" * 100_000, {"Content-Type": JSON}, 400, 3),
    (BODY, {"Content-Type": "text/plain"}, 415, 3),
    (BODY, {"Content-Encoding": "br"}, 415, 3),
    (BODY, {"Content-Encoding": "gzip"}, 400, 3),
    (BODY, {"X-Tag-Attribute": "gen_ai.input.messages"}, 400, 3),
    (BODY, {"Authorization": "Bearer ik_unknown"}, 401, 16),
    (BODY, {"Authorization": ""}, 401, 16),
    (b"\x0a\x00" * 60_000, {}, 413, 3),
    (b'{"resourceSpans":[%s{}]}' % (b"{}," * 700_000), {"Content-Type": JSON}, 413, 3),
    (gzip.compress(b"\0" * 20_000_000), {"Content-Encoding": "gzip"}, 413, 3),
]


@each_case(("body", "headers", "status", "code"), REFUSED)
def test_a_refusal_is_a_status_in_the_encoding_of_the_request(
    client: FlaskClient,
    tenant: Tenant,
    db_session: Session,
    body: bytes,
    headers: dict[str, str],
    status: int,
    code: int,
) -> None:
    answer = _send(client, tenant, body, **headers)
    if headers.get("Content-Type") == JSON:
        found = answer.get_json()
    else:
        assert answer.mimetype == PROTOBUF
        message = Status.FromString(answer.data)
        found = {"code": message.code, "message": message.message}
    assert (answer.status_code, found["code"]) == (status, code)
    assert found["message"]
    assert _stored(db_session) == []


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("others", [1, 0])
def test_text_rejects_its_span_alone_and_is_kept_nowhere(
    client: FlaskClient,
    tenant: Tenant,
    db_session: Session,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    others: int,
) -> None:
    with_text = span({**CHAT, "gen_ai.prompt.0.content": CANARY, f"gen_ai.prompt.{CANARY}": "x y"})
    request = document(*(span(CHAT) for _ in range(others)), with_text, scope="traceloop.tracer")
    answer = _send(client, tenant, ENCODERS[kind](request), kind)
    rejected, message = _partial(answer, kind)
    assert (answer.status_code, rejected) == (200, 1)
    assert "gen_ai.prompt.*" in message
    assert "TRACELOOP_TRACE_CONTENT=false" in message
    row = db_session.execute(text("SELECT span_batches::text FROM span_batches")).scalar_one()
    assert CANARY not in f"{answer.data} {row} {_stored(db_session)} {caplog.text}"
    assert len(_stored(db_session)) == others


@pytest.mark.parametrize("kind", ENCODERS)
def test_whatever_is_not_read_is_kept_nowhere(
    client: FlaskClient,
    tenant: Tenant,
    db_session: Session,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    message = {"key": "exception.message", "value": {"stringValue": CANARY}}
    event = {"name": "exception", "attributes": [message]}
    unread = {**CHAT, "user.email": CANARY, CANARY: CANARY, "url.full": CANARY * 9_000}
    each = span(unread, name=CANARY, events=[event], status={"code": 2, "message": CANARY})
    body = ENCODERS[kind](document(each, scope=CANARY, version=CANARY, host_name=CANARY))
    assert _send(client, tenant, body, kind).status_code == 200
    row = db_session.execute(text("SELECT span_batches::text FROM span_batches")).scalar_one()
    (record,) = _stored(db_session)
    assert record["status"] == "error"
    assert CANARY not in f"{row} {record} {caplog.text}"


def test_the_account_without_a_subscription_pays_first(
    client: FlaskClient, sessions: Sessions
) -> None:
    lapsed = add_tenant(sessions, status="canceled")
    for path in (TRACES, LOGS, METRICS):
        headers = {**lapsed.writes, "Content-Type": PROTOBUF}
        answer = client.post(path, data=BODY, headers=headers)
        assert (answer.status_code, Status.FromString(answer.data).code) == (402, 9)


def test_above_the_limit_the_exporter_is_asked_to_wait(
    share_app: Callable[..., Flask], tenant: Tenant
) -> None:
    client = share_app(otlp_key_limit_per_minute=1).test_client()
    assert _send(client, tenant).status_code == 200
    answer = _send(client, tenant)
    assert (answer.status_code, Status.FromString(answer.data).code) == (429, 8)
    assert int(answer.headers["Retry-After"]) > 0


def test_the_account_or_the_exporter_may_choose_the_attribute_of_the_tag(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    labels = {"gen_ai.agent.name": "refunds", "team": "payments"}
    body = as_protobuf(document(span({**CHAT, **labels}), service_name="bot", region="eu"))
    _send(client, tenant, body, **{"X-Tag-Attribute": "gen_ai.agent.name"})
    for chosen in ("team", "region", "absent", None):
        db_session.execute(update(Account).values(tag_attribute=chosen))
        _send(client, tenant, body)
    _send(client, tenant, body, **{"X-Tag-Attribute": "team"})
    found = [each["tag"] for each in _stored(db_session)]
    assert found == ["refunds", "payments", "eu", "bot", "bot", "payments"]


@pytest.mark.parametrize("value", ["x" * 201, "a\nb", 7])
def test_a_chosen_attribute_has_the_limits_of_a_tag(
    client: FlaskClient, tenant: Tenant, db_session: Session, value: object
) -> None:
    db_session.execute(update(Account).values(tag_attribute="team"))
    _send(client, tenant, as_protobuf(document(span({**CHAT, "team": value}), service_name="bot")))
    (record,) = _stored(db_session)
    assert "tag" not in record
