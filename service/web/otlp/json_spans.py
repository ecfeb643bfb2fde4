"""Read the spans of a JSON request: OTLP's JSON encoding, with hexadecimal IDs."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct, field

from service.errors import BadRequestError
from service.web.otlp import wire
from service.web.otlp.attributes import CONTENT, COUNT, SKIPPED
from service.web.otlp.content import has_text, is_event_content
from service.web.otlp.spans import ERROR, Origin, Reading, Span, Value

# Each becomes an object of about 90 bytes.
_MOST_OBJECTS: Final = 600_000
_LAST_TIME: Final = 2**64 - 1  # of a fixed64, as in protobuf
_NOT_JSON: Final = "The body isn't valid OTLP JSON."


class _Any(Struct, rename="camel", gc=False):
    """A value; those with several are kept as text, to look for strings in them."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    # In a union with None, msgspec would take these for None alone.
    array_value: msgspec.Raw = msgspec.Raw()
    kvlist_value: msgspec.Raw = msgspec.Raw()


class _Attribute(Struct, gc=False):
    key: str = ""
    value: _Any | None = None


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
    spans: list[_Span] | None = None


class _Resource(Struct, gc=False):
    attributes: list[_Attribute] | None = None


class _ResourceSpans(Struct, rename="camel", gc=False):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(Struct, gc=False):
    resource_spans: list[_ResourceSpans] | None = field(default=None, name="resourceSpans")


_DECODER: Final = msgspec.json.Decoder(_Request)


def read_spans(body: bytes, reading: Reading) -> Iterator[Span]:
    """Yield the spans with attributes that are read.

    Raises
    ------
    BadRequestError
        The body is not a request of this kind.
    PayloadTooLargeError
        Too many spans or values.
    """
    if body.count(b"{") > _MOST_OBJECTS:
        raise wire.too_many_spans()
    try:
        request = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequestError(_NOT_JSON) from None
    for resource_spans in request.resource_spans or ():
        resource: dict[str, Value] = {}
        if resource_spans.resource is not None:
            _read_attributes(resource_spans.resource.attributes, resource, reading)
        for scope_spans in resource_spans.scope_spans or ():
            scope = scope_spans.scope or _Scope()
            origin = Origin(scope.name, scope.version, resource)
            for span in scope_spans.spans or ():
                yield from _read_span(span, origin, reading)


def _read_span(span: _Span, origin: Origin, reading: Reading) -> Iterator[Span]:
    values: dict[str, Value] = {}
    _read_attributes(span.attributes, values, reading)
    for event in span.events or ():
        for attribute in event.attributes or ():
            if is_event_content(event.name, attribute.key) and _holds_text(attribute.value):
                reading.content.add(attribute.key)
    span_id, parent_id = _read_id(span.span_id), _read_id(span.parent_span_id)
    if not values:
        reading.parents[span_id] = parent_id
        return
    is_error = span.status is not None and span.status.code in (ERROR, "STATUS_CODE_ERROR")
    start, end = _read_time(span.start_time_unix_nano), _read_time(span.end_time_unix_nano)
    yield Span(origin, _read_id(span.trace_id), span_id, parent_id, start, end, is_error, values)


def _read_attributes(
    attributes: list[_Attribute] | None, values: dict[str, Value], reading: Reading
) -> None:
    names = reading.names
    for attribute in attributes or ():
        name, value = attribute.key, attribute.value
        kind = names.kinds.get(name)
        if kind is None:
            kind = names.classify(name)
        if kind == SKIPPED or value is None:
            continue
        if kind == CONTENT:
            if _holds_text(value):
                reading.content.add(name)
        else:
            values[name] = _read_value(value, is_count=kind == COUNT)


def _read_value(value: _Any, *, is_count: bool) -> Value:
    if value.int_value is not None:
        return value.int_value
    if value.double_value is not None:
        return value.double_value
    return value.string_value or (0 if is_count else "")


def _holds_text(value: _Any | None) -> bool:
    if value is None:
        return False
    if value.string_value is not None:
        return has_text(value.string_value)
    if value.bytes_value:
        return True
    return any(
        b'tringValue"' in bytes(several) for several in (value.array_value, value.kvlist_value)
    )


def _read_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequestError(_NOT_JSON) from None


def _read_time(value: int | str) -> int:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else 0
    return value if 0 <= value <= _LAST_TIME else 0
