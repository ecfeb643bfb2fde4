"""Read the spans, log records or metrics of a JSON request: OTLP's, with hexadecimal IDs."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Struct, defstruct, field

from service.errors import BadRequestError
from service.web.otlp import wire
from service.web.otlp.agent_logs import Answer, LogReading
from service.web.otlp.agent_metrics import (
    MALFORMED,
    NO_COUNTER,
    TEMPORALITIES,
    TOO_LARGE,
    MetricPoint,
    MetricReading,
)
from service.web.otlp.spans import (
    ERROR,
    SPAN_COST,
    OtlpSpan,
    SpanOrigin,
    SpanReading,
    Value,
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
_NO_METRICS: Final = "The body has no resourceMetrics: send metrics to this address."
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


class _Resource(Struct, gc=False):
    attributes: list[_Attribute] | None = None


class _Log(Struct, rename="camel", gc=False):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    attributes: list[_Attribute] | None = None


class _Point(Struct, rename="camel", gc=False):
    start_time_unix_nano: int | str = 0
    time_unix_nano: int | str = 0
    attributes: list[_Attribute] | None = None
    as_int: int | str | None = None
    as_double: float | str | None = None
    sum: float | str | None = None  # of a histogram
    flags: int = 0


class _Data(Struct, rename="camel", gc=False):
    data_points: list[msgspec.Raw] | None = None
    aggregation_temporality: int | str = 0
    is_monotonic: bool = False


class _Metric(Struct, rename="camel", gc=False):
    name: str = ""
    sum: _Data | None = None
    histogram: _Data | None = None
    exponential_histogram: _Data | None = None
    gauge: _Data | None = None
    summary: _Data | None = None


class _Kind(NamedTuple):
    """A kind of request: spans, logs and metrics have one structure under different names."""

    request: msgspec.json.Decoder[Any]
    resource: msgspec.json.Decoder[Any]
    scope: msgspec.json.Decoder[Any]
    if_missing: str

    @classmethod
    def of(cls, of_request: str, of_resource: str, of_scope: str, if_missing: str) -> Self:
        """Return the decoders; each result has its `parts` under the name that is given."""

        def decoder(name: str, *members: Any) -> msgspec.json.Decoder[Any]:
            parts = ("parts", list[msgspec.Raw] | None, field(default=None, name=name))
            return msgspec.json.Decoder(defstruct("_Parts", (*members, parts), gc=False))

        resource = ("resource", msgspec.Raw, msgspec.Raw(b"null"))
        scope = ("scope", _Scope | None, None)
        return cls(
            decoder(of_request),
            decoder(of_resource, resource),
            decoder(of_scope, scope),
            if_missing,
        )


_SPANS: Final = _Kind.of("resourceSpans", "scopeSpans", "spans", _NO_SPANS)
_LOGS: Final = _Kind.of("resourceLogs", "scopeLogs", "logRecords", _NO_LOGS)
_METRICS: Final = _Kind.of("resourceMetrics", "scopeMetrics", "metrics", _NO_METRICS)
_RESOURCE: Final = msgspec.json.Decoder(_Resource | None)
_SPAN: Final = msgspec.json.Decoder(_Span)
_LOG: Final = msgspec.json.Decoder(_Log)
_METRIC: Final = msgspec.json.Decoder(_Metric)
_POINT: Final = msgspec.json.Decoder(_Point)


def read_spans(body: bytes, reading: SpanReading) -> Iterator[OtlpSpan]:
    """Yield the spans with attributes that are read.

    Raise `BadRequestError` if the body is not a request of this kind, and `PayloadTooLargeError` if
    it has too many spans or values.
    """
    try:
        for origin, text in _cut(body, _SPANS, reading):
            span = _decode(_SPAN, text)
            values: dict[str, Value] = {}
            usage: dict[str, float] = {}
            _ATTRIBUTES.read(span.attributes or (), values, usage, reading)
            for event in span.events or ():
                _ATTRIBUTES.read_event(event.name, event.attributes or (), reading)
            span_id, parent_id = _read_id(span.span_id), _read_id(span.parent_span_id)
            if not (values or usage or reading.is_noted):
                reading.parents[span_id] = parent_id
                continue
            is_error = span.status is not None and span.status.code in (ERROR, "STATUS_CODE_ERROR")
            start, end = _read_time(span.start_time_unix_nano), _read_time(span.end_time_unix_nano)
            ids = (_read_id(span.trace_id), span_id, parent_id)
            read = OtlpSpan(origin, *ids, start, end, is_error, values, usage)
            yield reading.finish(read) if reading.is_noted else read
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequestError(_NOT_JSON) from None


def read_logs(body: bytes, reading: LogReading) -> Iterator[Answer]:
    """Yield the answers that agents have logged; errors are those of `read_spans`."""
    try:
        for origin, text in _cut(body, _LOGS, reading):
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


def read_metrics(body: bytes, reading: MetricReading) -> None:
    """Read the data points of agents' counters; errors are those of `read_spans`."""
    try:
        for origin, text in _cut(body, _METRICS, reading):
            metric = _METRIC.decode(text)
            counter = reading.find_counter(metric.name)
            if counter is None:
                continue
            for data in filter(None, (metric.gauge, metric.summary)):
                reading.refused[NO_COUNTER] += len(data.data_points or ())
            for data in filter(None, (metric.sum, metric.histogram, metric.exponential_histogram)):
                temporality = TEMPORALITIES.get(data.aggregation_temporality, "")
                if data is metric.sum and not data.is_monotonic:
                    temporality = ""
                stream = reading.begin_stream(counter, origin, metric.name, temporality)
                for own in data.data_points or ():
                    reading.spend(SPAN_COST)
                    if len(memoryview(own)) > wire.LARGE:
                        reading.refused[TOO_LARGE] += 1
                        continue
                    try:
                        point = _POINT.decode(own)
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                        reading.refused[MALFORMED] += 1
                        continue
                    value = point.sum if data is not metric.sum else point.as_int
                    read = MetricPoint(
                        _read_time(point.start_time_unix_nano),
                        _read_time(point.time_unix_nano),
                        value if value is not None else point.as_double,
                        point.attributes or (),
                        point.flags,
                    )
                    reading.read_point(stream, read, _ATTRIBUTES)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequestError(_NOT_JSON) from None


def _cut(
    body: bytes, kind: _Kind, reading: SpanReading
) -> Iterator[tuple[SpanOrigin, msgspec.Raw]]:
    """Yield each span, log record or metric with its origin."""
    if body.count(b",") > _MOST_ELEMENTS:
        raise too_many_spans()
    request = kind.request.decode(body)
    if request.parts is None and b'"' in body:  # `{}` is a request without spans
        raise BadRequestError(kind.if_missing)
    for each in request.parts or ():
        reading.spend(SPAN_COST)
        of_resource = kind.resource.decode(each)
        resource = _decode(_RESOURCE, of_resource.resource)
        values: dict[str, Value] = {}
        if resource is not None:
            _ATTRIBUTES.read(resource.attributes or (), values, {}, reading)
        reading.begin_resource()
        for part in of_resource.parts or ():
            reading.spend(SPAN_COST)
            of_scope = kind.scope.decode(part)
            scope = of_scope.scope or _Scope()
            origin = reading.make_origin(scope.name, scope.version, values)
            for text in of_scope.parts or ():
                reading.spend(SPAN_COST)
                yield origin, text


def _decode(decoder: msgspec.json.Decoder[_T], text: msgspec.Raw) -> _T:
    """Decode a part of a request whose objects are not counted yet."""
    if len(memoryview(text)) > wire.LARGE and bytes(text).count(b"{") > _MOST_OBJECTS:
        raise too_many_spans()
    return decoder.decode(text)


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
