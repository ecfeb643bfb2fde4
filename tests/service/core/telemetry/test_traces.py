"""One trace leads from a request to its published report, without anything that was sent."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from service.config import Config
from service.core.telemetry.counters import timed
from service.core.telemetry.traces import (
    audit_spans,
    flush_traces,
    split_headers,
    start_traces,
    trace_context,
)
from service.errors import ConfigError
from tests.service.support.receiver import Received, attributes_of, running_receiver, spans_of
from tests.service.support.scenes import INGEST, Sessions, Tenant, batch

CANARY = "CANARY-5d1e"
FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver(config: Config) -> Iterator[Received]:
    with running_receiver() as received:
        start_traces(traced(config, received))
        yield received
        flush_traces()
        start_traces(config)


def traced(config: Config, received: Received, share: float = 1.0) -> Config:
    url = f"http://127.0.0.1:{received.port}/v1/traces"
    return replace(config, traces_url=url, traces_share=share, traces_headers="x-token=abc")


def sent_spans(received: Received) -> list[Any]:
    flush_traces()
    return spans_of(received)


def test_one_trace_leads_from_the_request_to_the_report(
    make_app: Callable[..., Flask],
    config: Config,
    receiver: Received,
    tenant: Tenant,
    sessions: Sessions,
) -> None:
    settings = traced(config, receiver)
    names = ("traces_url", "traces_share", "traces_headers")
    client = make_app(**{name: getattr(settings, name) for name in names}).test_client()
    body = batch()
    body["records"][0]["tag"] = CANARY
    sent = {**tenant.writes, "traceparent": FOREIGN, "User-Agent": CANARY}
    answer = client.post(f"{INGEST}?q={CANARY}", json=body, headers=sent)
    audit_id = answer.get_json()["audit_id"]
    with sessions() as session:
        query = text("SELECT traceparent FROM audits WHERE id = :id")
        context = session.scalar(query, {"id": audit_id})
    with audit_spans({audit_id: context}):
        for stage in ("read", "audit", "store", "publish"):
            with timed(stage):
                pass
    found = {span.name: span for span in sent_spans(receiver)}
    names_found = {f"POST {INGEST}", "enqueue", "audit", "read", "store", "publish"}
    assert found.keys() == names_found
    request, audit = found[f"POST {INGEST}"], found["audit"]
    assert {span.trace_id for span in found.values()} == {request.trace_id}
    assert request.trace_id.hex() not in FOREIGN
    assert found["enqueue"].parent_span_id == audit.parent_span_id == request.span_id
    assert attributes_of(request) == {
        "http.request.method": "POST",
        "http.route": INGEST,
        "http.response.status_code": 201,
    }
    assert attributes_of(audit)["tallystick.audit_id"] == audit_id
    sent_bytes = b"".join(receiver.bodies)
    for secret in (CANARY, tenant.key, tenant.account_id, "127.0.0.1"):
        assert secret.encode() not in sent_bytes
    assert receiver.headers[0]["x-token"] == "abc"


def test_a_failed_stage_is_marked_by_the_type_of_its_error(receiver: Received) -> None:
    with pytest.raises(ValueError, match=CANARY), audit_spans({"1" * 32: FOREIGN}), timed("store"):
        raise ValueError(CANARY)
    spans = sent_spans(receiver)
    assert [attributes_of(span)["error.type"] for span in spans] == ["ValueError"] * 2
    assert CANARY.encode() not in b"".join(receiver.bodies)
    assert {span.trace_id.hex() for span in spans} == {FOREIGN.split("-")[1]}


def test_each_of_several_audits_has_the_stages_in_its_own_trace(receiver: Received) -> None:
    other = FOREIGN.replace("0af7", "ffff")
    with audit_spans({"1" * 32: FOREIGN, "2" * 32: other, "3" * 32: None}), timed("read", 3):
        pass
    spans = sent_spans(receiver)
    assert sorted((span.trace_id.hex(), span.name) for span in spans) == [
        (context.split("-")[1], name) for context in (FOREIGN, other) for name in ("audit", "read")
    ]


def test_a_request_that_is_not_sampled_leaves_no_span(
    make_app: Callable[..., Flask], config: Config, receiver: Received, tenant: Tenant
) -> None:
    settings = traced(config, receiver, share=0.0)
    client = make_app(traces_url=settings.traces_url, traces_share=0.0).test_client()
    assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201
    assert sent_spans(receiver) == []
    assert trace_context() is None


def test_without_an_address_nothing_is_traced(config: Config) -> None:
    start_traces(config)
    with audit_spans({"1" * 32: FOREIGN}), timed("read"):
        assert trace_context() is None
    # Headers are split and checked.
    assert split_headers("a=Bearer x=, b-c=2") == {"a": "Bearer x=", "b-c": "2"}
    with pytest.raises(ConfigError, match="TRACES_HEADERS must list headers"):
        replace(config, traces_headers="no value")
