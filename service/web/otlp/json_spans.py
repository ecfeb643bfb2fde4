"""Read the spans of a JSON request: OTLP's JSON encoding, with hexadecimal IDs."""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from service.errors import BadRequestError
from service.web.otlp import wire
from service.web.otlp.attributes import CONTENT, COPIES, COUNT, SKIPPED, TEXT, USED
from service.web.otlp.content import has_text, published_event_name, published_name
from service.web.otlp.spans import (
    ERROR,
    EVENT_COST,
    NO_COPY,
    NOT_READ,
    SPAN_COST,
    Origin,
    Reading,
    Span,
    Value,
    make_origin,
    read_amount,
    too_many_spans,
)

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


_REQUEST: Final = msgspec.json.Decoder(_Request)
_RESOURCE_SPANS: Final = msgspec.json.Decoder(_ResourceSpans)
_RESOURCE: Final = msgspec.json.Decoder(_Resource | None)
_SCOPE_SPANS: Final = msgspec.json.Decoder(_ScopeSpans)
_SPAN: Final = msgspec.json.Decoder(_Span)


def read_spans(body: bytes, reading: Reading) -> Iterator[Span]:
    """Yield the spans with attributes that are read.

    Raises
    ------
    BadRequestError
        The body is not a request of this kind.
    PayloadTooLargeError
        Too many spans or values.
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


def _read_resource(text: msgspec.Raw, reading: Reading) -> Iterator[Span]:
    resource_spans = _RESOURCE_SPANS.decode(text)
    resource = _decode(_RESOURCE, resource_spans.resource)
    values: dict[str, Value] = {}
    if resource is not None:
        _read_attributes(resource.attributes, values, {}, reading)
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


def _read_span(span: _Span, origin: Origin, reading: Reading) -> Iterator[Span]:
    values: dict[str, Value] = {}
    usage: dict[str, float] = {}
    _read_attributes(span.attributes, values, usage, reading)
    for event in span.events or ():
        reading.spend(EVENT_COST + len(event.attributes or ()))
        for attribute in event.attributes or ():
            name = published_event_name(event.name, attribute.key)
            if name is not None and _holds_text(attribute.value, reading):
                reading.note_text(name)
    span_id, parent_id = _read_id(span.span_id), _read_id(span.parent_span_id)
    if not (values or usage or reading.is_noted):
        reading.parents[span_id] = parent_id
        return
    is_error = span.status is not None and span.status.code in (ERROR, "STATUS_CODE_ERROR")
    start, end = _read_time(span.start_time_unix_nano), _read_time(span.end_time_unix_nano)
    trace_id = _read_id(span.trace_id)
    read = Span(origin, trace_id, span_id, parent_id, start, end, is_error, values, usage)
    yield reading.finish(read) if reading.is_noted else read


def _read_attributes(
    attributes: list[_Attribute] | None,
    values: dict[str, Value],
    usage: dict[str, float],
    reading: Reading,
) -> None:
    reading.spend(len(attributes or ()))
    for attribute in attributes or ():
        name, value = attribute.key, attribute.value
        kind = reading.kinds.get(name)
        if kind is None:
            kind = reading.classify(name)
        if kind == SKIPPED or value is None:
            continue
        if kind == USED:
            usage[name] = _read_used(value, reading)
        elif kind == COUNT:
            values[name] = value.int_value or value.double_value or value.string_value or 0
        elif kind == TEXT:
            is_copy = not value.string_value and name in COPIES and _has_number(value, reading)
            values[name] = NO_COPY if is_copy else value.string_value or ""
        elif kind == CONTENT:
            if _holds_text(value, reading):
                reading.note_text(published_name(name) or name)
        else:
            reading.note_tokens(name, _read_used(value, reading))


def _read_used(value: _Any, reading: Reading) -> float:
    number = value.int_value or value.double_value or value.string_value or 0
    if isinstance(number, str):
        return read_amount(number)
    return number or (NOT_READ if _has_number(value, reading) else 0)


def _has_number(value: _Any, reading: Reading) -> bool:
    """Check for a list or a map with a number in it, however deep."""
    if value.array_value is not None:
        inner = value.array_value.values or []
    elif value.kvlist_value is not None:
        inner = [each.value for each in value.kvlist_value.values or ()]
    else:
        return False
    reading.spend(1 + len(inner))
    return any(
        each is not None
        and (_amount(each.int_value) or _amount(each.double_value) or _has_number(each, reading))
        for each in inner
    )


def _amount(value: float | str | None) -> float:
    return read_amount(value) if isinstance(value, str) else value or 0


def _holds_text(value: _Any | None, reading: Reading) -> bool:
    if value is None:
        return False
    if value.string_value is not None:
        return has_text(value.string_value)
    if value.array_value is not None:
        values = value.array_value.values or ()
        reading.spend(1 + len(values))
        return any(_holds_text(each, reading) for each in values)
    if value.kvlist_value is not None:
        members = value.kvlist_value.values or ()
        reading.spend(1 + len(members))
        return any(_holds_text(each.value, reading) for each in members)
    return bool(value.bytes_value)


def _read_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequestError(_NOT_JSON) from None


def _read_time(value: int | str) -> int:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else 0
    return value if 0 <= value <= _LAST_TIME else 0
