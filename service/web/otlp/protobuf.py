"""Read the spans of a protobuf request with the official `opentelemetry-proto`, one at a time."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtobufSpan

from service.web.otlp import wire
from service.web.otlp.attributes import CONTENT, COUNT, SKIPPED, TEXT
from service.web.otlp.content import has_text, is_event_content
from service.web.otlp.spans import ERROR, Origin, Reading, Span, Value

Event = ProtobufSpan.Event

# Fields of a span, and of an attribute; a large span is read without its other fields.
_ATTRIBUTE, _EVENT = 9, 11
_EVENT_ATTRIBUTE: Final = 3
_KEY: Final = 1
_KEPT: Final = frozenset((1, 2, 4, 7, 8, _ATTRIBUTE, 15))
_LONGEST_NAME: Final = 256
# Of a scope, a resource, an attribute: what is larger holds nothing that we read.
_LARGE: Final = 64 * 1024


def read_spans(body: bytes, reading: Reading) -> Iterator[Span]:
    """Yield the spans with attributes that are read.

    Raises
    ------
    BadRequestError
        The body is not a request of this kind.
    PayloadTooLargeError
        Too many spans.
    """
    budget = wire.Budget()
    try:
        for number, resource_spans, _ in wire.cut(memoryview(body), budget):
            if number == wire.RESOURCE_SPANS:
                yield from _read_resource(resource_spans, reading, budget)
    except (DecodeError, UnicodeDecodeError):
        raise wire.malformed() from None


def _read_resource(message: memoryview, reading: Reading, budget: wire.Budget) -> Iterator[Span]:
    parts = list(wire.cut(message, budget))
    resource = Resource()
    for number, part, _ in parts:
        if number == wire.RESOURCE and len(part) <= _LARGE:
            resource.MergeFromString(bytes(part))
    values: dict[str, Value] = {}
    _read_attributes(resource.attributes, values, reading)
    for number, part, _ in parts:
        if number == wire.SCOPE_SPANS:
            yield from _read_scope(part, values, reading, budget)


def _read_scope(
    message: memoryview, resource: dict[str, Value], reading: Reading, budget: wire.Budget
) -> Iterator[Span]:
    parts = list(wire.cut(message, budget))
    scope = InstrumentationScope()
    for number, part, _ in parts:
        if number == wire.SCOPE and len(part) <= _LARGE:
            scope.MergeFromString(bytes(part))
    origin = Origin(scope.name, scope.version, resource)
    parse = ProtobufSpan.FromString
    for number, part, _ in parts:
        if number != wire.SPANS:
            continue
        small = bytes(part) if len(part) <= wire.LARGE_SPAN else _cut_down(part, reading, budget)
        span = parse(small)
        values: dict[str, Value] = {}
        _read_attributes(span.attributes, values, reading)
        if span.events:
            _read_events(span.events, reading)
        if values:
            yield Span(
                origin,
                span.trace_id,
                span.span_id,
                span.parent_span_id,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.status.code == ERROR,
                values,
            )
        else:
            reading.parents[span.span_id] = span.parent_span_id


def _read_attributes(
    attributes: Iterable[KeyValue], values: dict[str, Value], reading: Reading
) -> None:
    names = reading.names
    kinds = names.kinds
    for attribute in attributes:
        name = attribute.key
        kind = kinds.get(name)
        if kind is None:
            kind, kinds = names.classify(name), names.kinds
        if kind == SKIPPED:
            continue
        value = attribute.value
        if kind == COUNT:
            # Most counts are integers that are not 0, and asking for the kind takes longer.
            values[name] = value.int_value or _read_value(value)
        elif kind == TEXT:
            values[name] = value.string_value or _read_value(value)
        elif kind == CONTENT and _holds_text(value):
            reading.content.add(name)


def _read_value(value: Any) -> Value:
    kind = value.WhichOneof("value")
    if kind in ("int_value", "double_value", "string_value"):
        found: Value = getattr(value, kind)
        return found
    return 0


def _holds_text(value: Any) -> bool:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return has_text(value.string_value)
    if kind == "array_value":
        return any(_holds_text(each) for each in value.array_value.values)
    if kind == "kvlist_value":
        return any(_holds_text(each.value) for each in value.kvlist_value.values)
    return kind == "bytes_value" and bool(value.bytes_value)


def _read_events(events: Iterable[Any], reading: Reading) -> None:
    for event in events:
        for attribute in event.attributes:
            if is_event_content(event.name, attribute.key) and _holds_text(attribute.value):
                reading.content.add(attribute.key)


def _cut_down(message: memoryview, reading: Reading, budget: wire.Budget) -> bytes:
    """Return a large span without what is not read, and note which of the rest holds text."""
    kept = bytearray()
    for number, own, field in wire.cut(message, budget):
        if number == _EVENT:
            event = Event.FromString(_shortened(own, _EVENT_ATTRIBUTE, reading, budget))
            _read_events((event,), reading)
        elif number == _ATTRIBUTE and len(own) > _LARGE:
            _check_name(own, reading, budget)
        elif number in _KEPT:
            kept += field
    return bytes(kept)


def _shortened(message: memoryview, attribute: int, reading: Reading, budget: wire.Budget) -> bytes:
    """Return an event without its large attributes, whose names are checked."""
    kept = bytearray()
    for number, own, field in wire.cut(message, budget):
        if len(own) <= _LARGE:
            kept += field
        elif number == attribute:
            _check_name(own, reading, budget)
    return bytes(kept)


def _check_name(attribute: memoryview, reading: Reading, budget: wire.Budget) -> None:
    """Note an attribute that is too large to be decoded, if its name is one of content."""
    for number, own, _ in wire.cut(attribute, budget):
        if number == _KEY and len(own) <= _LONGEST_NAME:
            name = bytes(own).decode(errors="replace")
            if is_event_content("gen_ai.", name):
                reading.content.add(name)
