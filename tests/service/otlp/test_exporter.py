"""The real OTLP exporter against the endpoint: retries, lost answers, and refusals."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import select, update
from sqlalchemy.orm import Session
from werkzeug.serving import make_server

from service.core.blobs import BlobStore
from service.models import Account, SpanNotice
from service.models.base import utc_now
from service.models.imports.span_notices import (
    NOTICE_DAYS,
    RecentSpans,
    find_recent_spans,
    note_spans,
)
from service.operations.maintenance.span_imports import close_import
from tests.service.otlp.requests import CHAT
from tests.service.support.scenes import Sessions, Tenant, sign_in
from tests.service.web.pages.words import words

Wsgi = Callable[[Any, Any], Iterable[bytes]]
WAIT = [("Retry-After", "1"), ("Content-Length", "0")]


class Unreliable:
    """The service behind something that answers the first requests itself.

    `lost` requests reach the service, but their answers are replaced as well.
    """

    def __init__(self, app: Flask, statuses: list[str], *, lost: bool) -> None:
        self._app, self._statuses, self._lost = app, statuses, lost
        self.requests = 0

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        self.requests += 1
        if not self._statuses:
            return self._app(environ, start_response)
        status = self._statuses.pop(0)
        if self._lost:
            b"".join(self._app(environ, _ignore))
        else:
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response(status, WAIT)
        return []


def _ignore(*_answer: Any) -> Any:
    """Take the start of an answer that is lost."""


@contextmanager
def serving(application: Wsgi) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, application)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}/otlp/v1/traces"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def finished_span(**attributes: Any) -> list[ReadableSpan]:
    """A span of a call as the SDK makes it, with more attributes."""
    return _finished({**CHAT, "gen_ai.operation.name": "chat", **attributes})


def _finished(attributes: dict[str, Any]) -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "checkout"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with provider.get_tracer("mine").start_as_current_span("chat") as span:
        span.set_attributes(attributes)
    return list(kept.get_finished_spans())


def exporter_to(url: str, key: str) -> OTLPSpanExporter:
    headers = {"Authorization": f"Bearer {key}"}
    return OTLPSpanExporter(url, headers=headers, timeout=20, compression=Compression.Gzip)


@pytest.mark.usefixtures("imported_at_once")
@pytest.mark.parametrize(
    ("status", "lost"),
    [("429 Too Many Requests", False), ("503 Service Unavailable", True)],
    ids=["refused", "answer lost"],
)
def test_what_is_refused_for_now_is_sent_again_and_counts_once(
    app: Flask, tenant: Tenant, db_session: Session, blobs: Path, status: str, lost: bool
) -> None:
    service = Unreliable(app, [status], lost=lost)
    with serving(service) as url:
        exported = exporter_to(url, tenant.key).export(finished_span())
    assert (exported, service.requests) == (SpanExportResult.SUCCESS, 2)
    store = BlobStore.from_url(blobs.as_uri())
    (audit_id,) = close_import(db_session.connection(), store, tenant.account_id)
    assert len(store.get(f"raw/{audit_id}.jsonl").splitlines()) == 1


def test_a_request_with_text_is_sent_once(app: Flask, tenant: Tenant) -> None:
    service = Unreliable(app, [], lost=False)
    with serving(service) as url:
        exported = exporter_to(url, tenant.key).export(
            finished_span(**{"input.value": "canary-text"})
        )
    assert (exported, service.requests) == (SpanExportResult.SUCCESS, 1)


def test_the_account_learns_what_an_exporter_does_not_show(
    app: Flask,
    tenant: Tenant,
    sessions: Sessions,
    db_session: Session,
    caplog: pytest.LogCaptureFixture,
) -> None:
    email = db_session.get_one(Account, tenant.account_id).email
    headers, client = sign_in(sessions, email), app.test_client(use_cookies=False)
    assert "OpenTelemetry spans" not in words(client.get("/settings", headers=headers))
    with serving(Unreliable(app, [], lost=False)) as url:
        exporter = exporter_to(url, tenant.key)
        for attributes in ({}, {"input.value": "canary-text"}, {"output.value": "canary-text"}):
            exporter.export(finished_span(**attributes))
        exporter.export(_finished({"Dear canary tokens": 9, "acme.promptTokens": 9}))
    assert "rejected" not in caplog.text
    expected = (
        "OpenTelemetry spans and log records in the last 7 days: 1 read, 3 not counted (with data"
        " points of metrics).",
        "2 spans were rejected because of text in output.value: drop the attributes in an"
        " OpenTelemetry Collector. Last: ",
        "1 span with tokens only in attributes that we don't read: acme.promptTokens was not"
        " counted. Last: ",
    )
    for path in ("/imports", "/settings"):
        page = words(client.get(path, headers=headers))
        for sentence in expected:
            assert sentence in page
        assert "canary" not in page
    ages = update(SpanNotice).values(day=utc_now().date() - timedelta(days=NOTICE_DAYS))
    db_session.execute(ages)
    assert find_recent_spans(db_session, tenant.account_id) == RecentSpans(0, [])
    note_spans(db_session, tenant.account_id, 5, [])
    assert db_session.scalars(select(SpanNotice.spans)).all() == [5]
