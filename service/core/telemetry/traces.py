"""Traces over OTLP from a request to its audit and report, if `TRACES_URL` is set.

Otherwise the SDK is not loaded and nothing is done. Spans have names of routes and stages, status
codes and our own IDs: no path, query, address, label or text of an error. A caller's trace context
is ignored, so that nobody outside decides what is sampled.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from service.config import Config
from service.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_SCOPE: Final = "tallystick"
_EXPORTER: Final = "opentelemetry.exporter"
# A process that ends loses the spans of so much time.
_DELAY_MS: Final = 1_000
_EXPORT_SECONDS: Final = 5.0
_FLUSH_MS: Final = 2_000


class Tracing:
    """The tracer of one process and of those that it forks; it starts with the first span."""

    def __init__(self, config: Config) -> None:
        self._url = config.traces_url
        self._headers = split_headers(config.traces_headers)
        self._share = config.traces_share
        self._process_id = 0
        self._provider: TracerProvider | None = None

    def begin(self, name: str, kind: str, parent: Any, attributes: Mapping[str, Any]) -> "Span":
        from opentelemetry.trace import SpanKind, set_span_in_context

        # A forked process would not have the thread of its parent's provider.
        if self._provider is None or self._process_id != os.getpid():
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

            resource = Resource(
                {"service.name": _SCOPE, "service.version": version("tallystick-server")}
            )
            sampler = ParentBased(TraceIdRatioBased(self._share))
            provider = TracerProvider(sampler, resource, shutdown_on_exit=True)
            exporter = OTLPSpanExporter(self._url, headers=self._headers, timeout=_EXPORT_SECONDS)
            provider.add_span_processor(
                BatchSpanProcessor(exporter, schedule_delay_millis=_DELAY_MS)
            )
            self._provider, self._process_id = provider, os.getpid()
        tracer = self._provider.get_tracer(_SCOPE)
        context = None if parent is None else set_span_in_context(parent)
        return tracer.start_span(
            name, context, SpanKind[kind], attributes=dict(attributes), record_exception=False
        )

    def flush(self) -> None:
        if self._provider is not None and self._process_id == os.getpid():
            self._provider.force_flush(_FLUSH_MS)


_tracing: Tracing | None = None
# The spans that what happens now belongs to: several if audits run together.
_active: ContextVar[Sequence[Any]] = ContextVar("active_spans", default=())


def start_traces(config: Config) -> None:
    """Trace this process from now on, if an address is set."""
    global _tracing
    if config.traces_url and find_spec(_EXPORTER) is None:
        raise ConfigError("TRACES_URL needs the packages of the extra `traces`, see the guide")
    _tracing = Tracing(config) if config.traces_url else None


def is_traced() -> bool:
    return _tracing is not None


def flush_traces() -> None:
    """Wait until the ended spans are sent, in a process that is about to exit."""
    if _tracing is not None:
        _tracing.flush()


def begin_request(method: str, route: str) -> None:
    """Begin the span of a request, which is active until `end_request`."""
    if _tracing is not None:
        attributes = {"http.request.method": method, "http.route": route}
        _active.set((_tracing.begin(f"{method} {route}", "SERVER", None, attributes),))


def end_request(status: int) -> None:
    for span in _active.get():
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            _mark_failed(span, str(status))
        span.end()
    _active.set(())


def trace_context() -> str | None:
    """Return the active span as a W3C `traceparent`, to continue its trace; None if unsampled."""
    for span in _active.get():
        context = span.get_span_context()
        if context.trace_flags.sampled:
            return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
    return None


@contextmanager
def audit_spans(contexts: Mapping[str, str | None]) -> Iterator[None]:
    """Continue the traces of some audits, by their IDs, while they are processed."""
    spans = [
        _tracing.begin("audit", "CONSUMER", parent, {"tallystick.audit_id": audit_id})
        for audit_id, context in contexts.items()
        if _tracing is not None and (parent := _parse(context)) is not None
    ]
    with _during(spans):
        yield


@contextmanager
def stage_spans(name: str, kind: str = "INTERNAL") -> Iterator[None]:
    """Add a span of a stage to each active one."""
    parents = _active.get()
    if not parents or _tracing is None:
        yield
        return
    with _during([_tracing.begin(name, kind, parent, {}) for parent in parents]):
        yield


@contextmanager
def _during(spans: Sequence[Any]) -> Iterator[None]:
    token = _active.set(spans) if spans else None
    try:
        yield
    except BaseException as error:
        for span in spans:
            _mark_failed(span, type(error).__qualname__)
        raise
    finally:
        if token is not None:
            _active.reset(token)
        for span in spans:
            span.end()


def _mark_failed(span: Any, kind: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _parse(context: str | None) -> Any:
    """Return the remote span of a `traceparent` that we wrote, or None."""
    if context is None:
        return None
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    _, trace_id, span_id, flags = context.split("-")
    ids = int(trace_id, 16), int(span_id, 16)
    return NonRecordingSpan(
        SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    )


def split_headers(text: str) -> dict[str, str]:
    """Return the headers in `name=value, name=value`."""
    pairs = (each.partition("=") for each in text.split(",") if each.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
