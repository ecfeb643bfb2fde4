"""Read a protobuf request with the official `opentelemetry-proto`: part by part."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Histogram,
    HistogramDataPoint,
    NumberDataPoint,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtobufSpan

from service.web.otlp import wire
from service.web.otlp.agent_logs import Answer, LogReading
from service.web.otlp.agent_metrics import (
    NO_COUNTER,
    TEMPORALITIES,
    TOO_LARGE,
    MetricPoint,
    MetricReading,
)
from service.web.otlp.attributes import NAMESPACES
from service.web.otlp.content import published_event_name
from service.web.otlp.spans import (
    ERROR,
    FIELD_COST,
    NOT_READ,
    SPAN_COST,
    OtlpSpan,
    SpanOrigin,
    SpanReading,
    Value,
)
from service.web.otlp.values import AttributeReader

# Fields of a span, and of an attribute.
_ATTRIBUTE, _EVENT = 9, 11
_EVENT_NAME, _EVENT_ATTRIBUTE = 2, 3
_KEY: Final = 1
# What a large span is read for, without its attributes and events.
_KEPT: Final = frozenset((1, 2, 4, 7, 8, 15))
_LONGEST_NAME: Final = 256
# Fields of a metric and of its data: those whose values add up, with the point's value, and others.
_METRIC_NAME, _DATA_POINT, _SUM = 1, 1, 7
_ADDED: Final[Mapping[int, tuple[Any, Any, str]]] = {
    _SUM: (Sum, NumberDataPoint, "value"),
    9: (Histogram, HistogramDataPoint, "_sum"),
    10: (ExponentialHistogram, ExponentialHistogramDataPoint, "_sum"),
}
_DATA: Final = frozenset((5, 11, *_ADDED))  # a gauge and a summary, too


def read_spans(body: bytes, reading: SpanReading) -> Iterator[OtlpSpan]:
    """Yield the spans with attributes that are read.

    Raise `BadRequestError` if the body is not a request of this kind, and `PayloadTooLargeError` if
    it has too many spans or attributes.
    """
    try:
        for origin, part in _cut(body, reading):
            values: dict[str, Value] = {}
            usage: dict[str, float] = {}
            if len(part) <= wire.LARGE:
                span = ProtobufSpan.FromString(bytes(part))
                _ATTRIBUTES.read(span.attributes, values, usage, reading)
                for event in span.events:
                    _ATTRIBUTES.read_event(event.name, event.attributes, reading)
            else:
                span = _read_large(part, values, usage, reading)
            if values or usage or reading.is_noted:
                read = OtlpSpan(
                    origin,
                    span.trace_id,
                    span.span_id,
                    span.parent_span_id,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == ERROR,
                    values,
                    usage,
                )
                yield reading.finish(read) if reading.is_noted else read
            else:
                reading.parents[span.span_id] = span.parent_span_id
    except (DecodeError, UnicodeDecodeError):
        raise wire.malformed() from None


def read_logs(body: bytes, reading: LogReading) -> Iterator[Answer]:
    """Yield the answers that agents have logged; errors are those of `read_spans`."""
    try:
        for origin, part in _cut(body, reading):
            if len(part) > wire.LARGE:
                reading.large += 1
                continue
            log = LogRecord.FromString(bytes(part))
            time = log.time_unix_nano or log.observed_time_unix_nano
            answer = reading.read(origin, time, log.attributes, _ATTRIBUTES)
            if answer is not None:
                yield answer
    except (DecodeError, UnicodeDecodeError):
        raise wire.malformed() from None


def read_metrics(body: bytes, reading: MetricReading) -> None:
    """Read the data points of agents' counters; errors are those of `read_spans`."""
    try:
        for origin, metric in _cut(body, reading):
            parts = list(wire.cut(metric, reading, FIELD_COST))
            name = "".join(_decode_name(own) for kind, own, _ in parts if kind == _METRIC_NAME)
            counter = reading.find_counter(name)
            if counter is None:
                continue
            for kind, data, _ in parts:
                if kind not in _DATA:
                    continue
                fields = list(wire.cut(data, reading, SPAN_COST))
                points = [own for number, own, _ in fields if number == _DATA_POINT]
                if kind not in _ADDED:
                    reading.refused[NO_COUNTER] += len(points)
                    continue
                of_data, of_point, value = _ADDED[kind]
                rest = (field for number, _, field in fields if number != _DATA_POINT)
                found = of_data.FromString(b"".join(rest))
                temporality = TEMPORALITIES.get(found.aggregation_temporality, "")
                if kind == _SUM and not found.is_monotonic:
                    temporality = ""
                stream = reading.begin_stream(counter, origin, name, temporality)
                for own in points:
                    if len(own) > wire.LARGE:
                        reading.refused[TOO_LARGE] += 1
                        continue
                    point = of_point.FromString(bytes(own))
                    given = point.WhichOneof(value)
                    read = MetricPoint(
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        getattr(point, given) if given else None,
                        point.attributes,
                        point.flags,
                    )
                    reading.read_point(stream, read, _ATTRIBUTES)
    except (DecodeError, UnicodeDecodeError):
        raise wire.malformed() from None


def _cut(body: bytes, reading: SpanReading) -> Iterator[tuple[SpanOrigin, memoryview]]:
    """Yield each span, log record or metric with its origin: all requests have one structure."""
    for number, resource_spans, _ in wire.cut(memoryview(body), reading, SPAN_COST):
        if number != wire.RESOURCE_SPANS:
            continue
        parts = list(wire.cut(resource_spans, reading, SPAN_COST))
        values: dict[str, Value] = {}
        for part in _find(wire.RESOURCE, parts):
            _ATTRIBUTES.read(Resource.FromString(part).attributes, values, {}, reading)
        reading.begin_resource()
        for kind, scope_spans, _ in parts:
            if kind != wire.SCOPE_SPANS:
                continue
            own = list(wire.cut(scope_spans, reading, SPAN_COST))
            scope = InstrumentationScope()
            for part in _find(wire.SCOPE, own):
                scope.MergeFromString(part)
            origin = reading.make_origin(scope.name, scope.version, values)
            yield from ((origin, span) for kind, span, _ in own if kind == wire.SPANS)


def _find(kind: int, parts: Sequence[wire.Part]) -> Iterator[bytes]:
    return (bytes(part) for number, part, _ in parts if number == kind and len(part) <= wire.LARGE)


def _inner(value: AnyValue) -> Sequence[AnyValue] | None:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        values: Sequence[AnyValue] = value.array_value.values
        return values
    if kind == "kvlist_value":
        return [each.value for each in value.kvlist_value.values]
    return None


_ATTRIBUTES: Final = AttributeReader(_inner)


def _read_large(
    message: memoryview, values: dict[str, Value], usage: dict[str, float], reading: SpanReading
) -> ProtobufSpan:
    """Return a large span, whose attributes and events are read one at a time."""
    kept = bytearray()
    for number, own, field in wire.cut(message, reading, FIELD_COST):
        if number == _ATTRIBUTE:
            if len(own) <= wire.LARGE:
                _ATTRIBUTES.read((KeyValue.FromString(bytes(own)),), values, usage, reading)
            else:
                _check_name("", own, usage, reading)
        elif number == _EVENT and len(own) <= wire.LARGE:
            event = ProtobufSpan.Event.FromString(bytes(own))
            _ATTRIBUTES.read_event(event.name, event.attributes, reading)
        elif number == _EVENT:
            parts = list(wire.cut(own, reading, FIELD_COST))
            name = "".join(_decode_name(part) for kind, part, _ in parts if kind == _EVENT_NAME)
            for kind, part, _ in parts:
                if kind == _EVENT_ATTRIBUTE and len(part) <= wire.LARGE:
                    _ATTRIBUTES.read_event(name, (KeyValue.FromString(bytes(part)),), reading)
                elif kind == _EVENT_ATTRIBUTE:
                    _check_name(name, part, {}, reading)
        elif number in _KEPT and len(own) <= wire.LARGE:
            kept += field
    span: ProtobufSpan = ProtobufSpan.FromString(bytes(kept))
    return span


def _check_name(
    event: str, attribute: memoryview, usage: dict[str, float], reading: SpanReading
) -> None:
    """Note an attribute that is too large to be decoded, if its name is of content or usage."""
    for number, own, _ in wire.cut(attribute, reading, FIELD_COST):
        if number == _KEY:
            key = _decode_name(own)
            name = published_event_name(event, key)
            if name is not None:
                reading.note_text(name)
            elif key.startswith(NAMESPACES):
                usage[key] = NOT_READ


def _decode_name(name: memoryview) -> str:
    return bytes(name[:_LONGEST_NAME]).decode(errors="replace")
