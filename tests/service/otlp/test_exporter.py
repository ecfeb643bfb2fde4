"""The real OTLP exporter against the endpoint: retries, lost answers, and refusals."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
from sqlalchemy.orm import Session
from werkzeug.serving import make_server

from service.core.blobs import BlobStore
from service.operations.maintenance.span_imports import close_import
from tests.service.otlp.requests import CHAT
from tests.service.support.scenes import Tenant

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


def finished_span(**attributes: str) -> list[ReadableSpan]:
    """A span as the SDK makes it."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "checkout"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with provider.get_tracer("mine").start_as_current_span("chat") as span:
        span.set_attributes(CHAT | {"gen_ai.operation.name": "chat"} | attributes)
    return list(kept.get_finished_spans())


def exporter_to(url: str, key: str) -> OTLPSpanExporter:
    headers = {"Authorization": f"Bearer {key}"}
    return OTLPSpanExporter(url, headers=headers, timeout=20, compression=Compression.Gzip)


@pytest.mark.usefixtures("imported_at_once")
@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
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
