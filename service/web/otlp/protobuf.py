"""Read the spans of a protobuf request with the official `opentelemetry-proto`, one at a time."""

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtobufSpan

from service.web.otlp import wire
from service.web.otlp.attributes import CONTENT, COPIES, COUNT, NAMESPACES, SKIPPED, TEXT, USED
from service.web.otlp.content import has_text, published_event_name, published_name
from service.web.otlp.spans import (
    ERROR,
    EVENT_COST,
    FIELD_COST,
    NO_COPY,
    NOT_READ,
    SPAN_COST,
    Reading,
    Span,
    Value,
    make_origin,
    read_amount,
)

# Fields of a span, and of an attribute.
_ATTRIBUTE, _EVENT = 9, 11
_EVENT_NAME, _EVENT_ATTRIBUTE = 2, 3
_KEY: Final = 1
# What a large span is read for, without its attributes and events.
_KEPT: Final = frozenset((1, 2, 4, 7, 8, 15))
_LONGEST_NAME: Final = 256


def read_spans(body: bytes, reading: Reading) -> Iterator[Span]:
    """Yield the spans with attributes that are read.

    Raises
    ------
    BadRequestError
        The body is not a request of this kind.
    PayloadTooLargeError
        Too many spans or attributes.
    """
    try:
        for number, resource_spans, _ in wire.cut(memoryview(body), reading, SPAN_COST):
            if number == wire.RESOURCE_SPANS:
                yield from _read_resource(resource_spans, reading)
    except (DecodeError, UnicodeDecodeError):
        raise wire.malformed() from None


def _read_resource(message: memoryview, reading: Reading) -> Iterator[Span]:
    parts = list(wire.cut(message, reading, SPAN_COST))
    values: dict[str, Value] = {}
    for number, part, _ in parts:
        if number == wire.RESOURCE and len(part) <= wire.LARGE:
            _read_attributes(Resource.FromString(bytes(part)).attributes, values, {}, reading)
    reading.begin_resource()
    for number, part, _ in parts:
        if number == wire.SCOPE_SPANS:
            yield from _read_scope(part, values, reading)


def _read_scope(
    message: memoryview, resource: dict[str, Value], reading: Reading
) -> Iterator[Span]:
    parts = list(wire.cut(message, reading, SPAN_COST))
    scope = InstrumentationScope()
    for number, part, _ in parts:
        if number == wire.SCOPE and len(part) <= wire.LARGE:
            scope.MergeFromString(bytes(part))
    origin = make_origin(scope.name, scope.version, resource)
    for number, part, _ in parts:
        if number != wire.SPANS:
            continue
        values: dict[str, Value] = {}
        usage: dict[str, float] = {}
        if len(part) <= wire.LARGE:
            span = ProtobufSpan.FromString(bytes(part))
            _read_attributes(span.attributes, values, usage, reading)
            for event in span.events:
                _read_event(event.name, event.attributes, reading)
        else:
            span = _read_large(part, values, usage, reading)
        if values or usage or reading.is_noted:
            read = Span(
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


def _read_attributes(
    attributes: Sequence[KeyValue],
    values: dict[str, Value],
    usage: dict[str, float],
    reading: Reading,
) -> None:
    kinds = reading.kinds
    reading.spend(len(attributes))
    for attribute in attributes:
        name = attribute.key
        kind = kinds.get(name)
        if kind is None:
            kind = reading.classify(name)
        if kind == SKIPPED:
            continue
        value = attribute.value
        if kind == USED:
            # Most counts are integers that are not 0, and asking for the kind takes longer.
            usage[name] = value.int_value or value.double_value or _read_used(value, reading)
        elif kind == COUNT:
            values[name] = value.int_value or value.double_value or value.string_value or 0
        elif kind == TEXT:
            values[name] = value.string_value or _read_empty(name, value, reading)
        elif kind == CONTENT:
            if _holds_text(value, reading):
                reading.note_text(published_name(name) or name)
        else:
            number = value.int_value or value.double_value or _read_used(value, reading)
            reading.note_tokens(name, number)


def _read_used(value: AnyValue, reading: Reading) -> float:
    text = value.string_value
    if text:
        return read_amount(text)
    return NOT_READ if _has_number(value, reading) else 0


def _read_empty(name: str, value: AnyValue, reading: Reading) -> str:
    return NO_COPY if name in COPIES and _has_number(value, reading) else ""


def _has_number(value: AnyValue, reading: Reading) -> bool:
    """Check for a list or a map with a number in it, however deep."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        inner = value.array_value.values
    elif kind == "kvlist_value":
        inner = [each.value for each in value.kvlist_value.values]
    else:
        return False
    reading.spend(1 + len(inner))
    return any(each.int_value or each.double_value or _has_number(each, reading) for each in inner)


def _holds_text(value: AnyValue, reading: Reading) -> bool:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return has_text(value.string_value)
    if kind == "array_value":
        values = value.array_value.values
        reading.spend(1 + len(values))
        return any(_holds_text(each, reading) for each in values)
    if kind == "kvlist_value":
        members = value.kvlist_value.values
        reading.spend(1 + len(members))
        return any(_holds_text(each.value, reading) for each in members)
    return kind == "bytes_value" and bool(value.bytes_value)


def _read_event(event: str, attributes: Sequence[KeyValue], reading: Reading) -> None:
    reading.spend(EVENT_COST + len(attributes))
    for attribute in attributes:
        name = published_event_name(event, attribute.key)
        if name is not None and _holds_text(attribute.value, reading):
            reading.note_text(name)


def _read_large(
    message: memoryview, values: dict[str, Value], usage: dict[str, float], reading: Reading
) -> ProtobufSpan:
    """Return a large span, whose attributes and events are read one at a time."""
    kept = bytearray()
    for number, own, field in wire.cut(message, reading, FIELD_COST):
        if number == _ATTRIBUTE:
            if len(own) <= wire.LARGE:
                _read_attributes((KeyValue.FromString(bytes(own)),), values, usage, reading)
            else:
                _check_name("", own, usage, reading)
        elif number == _EVENT and len(own) <= wire.LARGE:
            event = ProtobufSpan.Event.FromString(bytes(own))
            _read_event(event.name, event.attributes, reading)
        elif number == _EVENT:
            _read_large_event(own, reading)
        elif number in _KEPT and len(own) <= wire.LARGE:
            kept += field
    span: ProtobufSpan = ProtobufSpan.FromString(bytes(kept))
    return span


def _read_large_event(message: memoryview, reading: Reading) -> None:
    parts = list(wire.cut(message, reading, FIELD_COST))
    name = "".join(_decode_name(own) for number, own, _ in parts if number == _EVENT_NAME)
    for number, own, _ in parts:
        if number == _EVENT_ATTRIBUTE and len(own) <= wire.LARGE:
            _read_event(name, (KeyValue.FromString(bytes(own)),), reading)
        elif number == _EVENT_ATTRIBUTE:
            _check_name(name, own, {}, reading)


def _check_name(
    event: str, attribute: memoryview, usage: dict[str, float], reading: Reading
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
