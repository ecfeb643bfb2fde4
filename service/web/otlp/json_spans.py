"""Read the spans or log records of a JSON request: OTLP's encoding, with hexadecimal IDs."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from service.errors import BadRequestError
from service.web.otlp import wire
from service.web.otlp.agent_logs import Answer, LogReading
from service.web.otlp.spans import (
    ERROR,
    SPAN_COST,
    OtlpSpan,
    SpanOrigin,
    SpanReading,
    Value,
    make_origin,
    too_many_spans,
)
from service.web.otlp.values import AttributeReader

# Elements of all lists and objects, which are decoded before anything else counts them.
_MOST_ELEMENTS: Final = 1_000_000
# Objects of a single span or resource: attributes, values and events, each of about 90 bytes.
_MOST_OBJECTS: Final = 150_000
_LAST_TIME: Final = 2**64 - 1  # of a fixed64, as in protobuf
_NOT_JSON: Final = "The body isn't valid OTLP JSON."
_NO_SPANS: Final = (
    "The body has no resourceSpans: send spans to this address. Logs, metrics and usage records"
    " are not read here; send records to /api/v2/ingest, and files to /api/v1/audits."
)
_NO_LOGS: Final = "The body has no resourceLogs: send log records to this address."
_T = TypeVar("_T")


class _Any(Struct, rename="camel", gc=False):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: "_Values | None" = None
    kvlist_value: "_Attributes | None" = None


class _Values(Struct, gc=False):
    values: list[_Any | None] | None = None


class _Attribute(Struct, gc=False):
    key: str = ""
    value: _Any | None = None


class _Attributes(Struct, gc=False):
    values: list[_Attribute] | None = None


class _Event(Struct, gc=False):
    name: str = ""
    attributes: list[_Attribute] | None = None


class _Status(Struct, gc=False):
    code: int | str = 0


class _Span(Struct, rename="camel", gc=False):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Attribute] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _Scope(Struct, gc=False):
    name: str = ""
    version: str = ""


class _ScopeSpans(Struct, gc=False):
    scope: _Scope | None = None
    spans: list[msgspec.Raw] | None = None


class _Resource(Struct, gc=False):
    attributes: list[_Attribute] | None = None


class _ResourceSpans(Struct, rename="camel", gc=False):
    resource: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))
    scope_spans: list[msgspec.Raw] | None = None


class _Request(Struct, gc=False):
    resource_spans: list[msgspec.Raw] | None = field(default=None, name="resourceSpans")


class _Log(Struct, rename="camel", gc=False):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    attributes: list[_Attribute] | None = None


class _ScopeLogs(Struct, rename="camel", gc=False):
    scope: _Scope | None = None
    log_records: list[msgspec.Raw] | None = None


class _ResourceLogs(Struct, rename="camel", gc=False):
    resource: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))
    scope_logs: list[msgspec.Raw] | None = None


class _LogRequest(Struct, gc=False):
    resource_logs: list[msgspec.Raw] | None = field(default=None, name="resourceLogs")


_REQUEST: Final = msgspec.json.Decoder(_Request)
_LOG_REQUEST: Final = msgspec.json.Decoder(_LogRequest)
_RESOURCE_LOGS: Final = msgspec.json.Decoder(_ResourceLogs)
_SCOPE_LOGS: Final = msgspec.json.Decoder(_ScopeLogs)
_LOG: Final = msgspec.json.Decoder(_Log)
_RESOURCE_SPANS: Final = msgspec.json.Decoder(_ResourceSpans)
_RESOURCE: Final = msgspec.json.Decoder(_Resource | None)
_SCOPE_SPANS: Final = msgspec.json.Decoder(_ScopeSpans)
_SPAN: Final = msgspec.json.Decoder(_Span)


def read_spans(body: bytes, reading: SpanReading) -> Iterator[OtlpSpan]:
    """Yield the spans with attributes that are read.

    Raise `BadRequestError` if the body is not a request of this kind, and `PayloadTooLargeError` if
    it has too many spans or values.
    """
    if body.count(b",") > _MOST_ELEMENTS:
        raise too_many_spans()
    try:
        request = _REQUEST.decode(body)
        if request.resource_spans is None and b'"' in body:  # `{}` is a request without spans
            raise BadRequestError(_NO_SPANS)
        for resource_spans in request.resource_spans or ():
            reading.spend(SPAN_COST)
            yield from _read_resource(resource_spans, reading)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequestError(_NOT_JSON) from None


def read_logs(body: bytes, reading: LogReading) -> Iterator[Answer]:
    """Yield the answers that agents have logged; errors are those of `read_spans`."""
    if body.count(b",") > _MOST_ELEMENTS:
        raise too_many_spans()
    try:
        request = _LOG_REQUEST.decode(body)
        if request.resource_logs is None and b'"' in body:
            raise BadRequestError(_NO_LOGS)
        for each in request.resource_logs or ():
            reading.spend(SPAN_COST)
            resource_logs = _RESOURCE_LOGS.decode(each)
            resource = _decode(_RESOURCE, resource_logs.resource)
            values: dict[str, Value] = {}
            if resource is not None:
                _ATTRIBUTES.read(resource.attributes or (), values, {}, reading)
            reading.begin_resource()
            for part in resource_logs.scope_logs or ():
                reading.spend(SPAN_COST)
                scope_logs = _SCOPE_LOGS.decode(part)
                scope = scope_logs.scope or _Scope()
                origin = make_origin(scope.name, scope.version, values)
                for text in scope_logs.log_records or ():
                    reading.spend(SPAN_COST)
                    if len(memoryview(text)) > wire.LARGE:
                        reading.large += 1
                        continue
                    log = _LOG.decode(text)
                    time = _read_time(log.time_unix_nano) or _read_time(log.observed_time_unix_nano)
                    answer = reading.read(origin, time, log.attributes or (), _ATTRIBUTES)
                    if answer is not None:
                        yield answer
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequestError(_NOT_JSON) from None


def _read_resource(text: msgspec.Raw, reading: SpanReading) -> Iterator[OtlpSpan]:
    resource_spans = _RESOURCE_SPANS.decode(text)
    resource = _decode(_RESOURCE, resource_spans.resource)
    values: dict[str, Value] = {}
    if resource is not None:
        _ATTRIBUTES.read(resource.attributes or (), values, {}, reading)
    reading.begin_resource()
    for each in resource_spans.scope_spans or ():
        reading.spend(SPAN_COST)
        scope_spans = _SCOPE_SPANS.decode(each)
        scope = scope_spans.scope or _Scope()
        origin = make_origin(scope.name, scope.version, values)
        for span in scope_spans.spans or ():
            reading.spend(SPAN_COST)
            yield from _read_span(_decode(_SPAN, span), origin, reading)


def _decode(decoder: msgspec.json.Decoder[_T], text: msgspec.Raw) -> _T:
    """Decode a part of a request whose objects are not counted yet."""
    if len(memoryview(text)) > wire.LARGE and bytes(text).count(b"{") > _MOST_OBJECTS:
        raise too_many_spans()
    return decoder.decode(text)


def _read_span(span: _Span, origin: SpanOrigin, reading: SpanReading) -> Iterator[OtlpSpan]:
    values: dict[str, Value] = {}
    usage: dict[str, float] = {}
    _ATTRIBUTES.read(span.attributes or (), values, usage, reading)
    for event in span.events or ():
        _ATTRIBUTES.read_event(event.name, event.attributes or (), reading)
    span_id, parent_id = _read_id(span.span_id), _read_id(span.parent_span_id)
    if not (values or usage or reading.is_noted):
        reading.parents[span_id] = parent_id
        return
    is_error = span.status is not None and span.status.code in (ERROR, "STATUS_CODE_ERROR")
    start, end = _read_time(span.start_time_unix_nano), _read_time(span.end_time_unix_nano)
    trace_id = _read_id(span.trace_id)
    read = OtlpSpan(origin, trace_id, span_id, parent_id, start, end, is_error, values, usage)
    yield reading.finish(read) if reading.is_noted else read


def _inner(value: _Any) -> Sequence[_Any | None] | None:
    if value.array_value is not None:
        return value.array_value.values or ()
    if value.kvlist_value is not None:
        return [each.value for each in value.kvlist_value.values or ()]
    return None


_ATTRIBUTES: Final = AttributeReader(_inner)


def _read_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequestError(_NOT_JSON) from None


def _read_time(value: int | str) -> int:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else 0
    return value if 0 <= value <= _LAST_TIME else 0
