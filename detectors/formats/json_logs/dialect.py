"""What the JSON formats share: our own label fields, and the interface of a dialect.

A dialect defines the shapes of a model provider's objects and converts their rows to columns.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from detectors.contract import (
    MAX_LATENCY_MS,
    REQUIRED_FIELDS,
    STORED_FIELDS,
    V1_FIELDS,
    V2_FIELDS,
    Count,
    Label,
    ModelName,
    PrefixHash,
    RecordField,
)
from detectors.formats.columns import Columns, lowered, optional_columns
from detectors.formats.json_logs.shapes import Shape, shape_of
from detectors.formats.moments import (
    EPOCH,
    FIRST_MICROSECOND,
    LAST_MICROSECOND,
    MICROSECOND,
    SECOND_US,
    scale,
)

Moment = datetime | int | float | None
_MOMENT_BYTES: Final = 6  # of a time in whole seconds: two of its type, then four of the seconds
_ARRAY_START: Final = 3  # bytes before the first, of fewer than 65,536


class Labels(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The record's own fields that the lines of both dialects may have at their top level."""

    ts: Moment = None
    created: Moment = None
    provider: Label | None = None
    endpoint: Label | None = None
    request_id: Label | None = None
    tag: Label | None = None
    prefix_hash: PrefixHash | None = None
    declared_max_tokens: Count | None = None
    latency_ms: Annotated[float, Meta(ge=0, le=MAX_LATENCY_MS)] | None = None


_IN_USAGE: Final = tuple(
    field
    for field in V2_FIELDS
    if field.name == "service_tier" or (field.part and field.part.total in REQUIRED_FIELDS)
)
# The tier, by any name, and parts of the prompt and the answer: a provider's usage says them in its
# own way.
USAGE_FIELDS: Final = tuple(
    field if field.part else field._replace(type=Label | None) for field in _IN_USAGE
)
# The record's other fields since its second version, which few logs have.
_MORE: Final = tuple(field for field in STORED_FIELDS if field not in (*V1_FIELDS, *_IN_USAGE))


def with_more_labels(struct: type[Struct]) -> type[Struct]:
    """Return a line's struct with these labels too; lines without them are read faster."""
    return with_fields(struct, _MORE)


def with_fields(struct: type[Struct], fields: Iterable[RecordField]) -> type[Struct]:
    """Return a line's struct that has these fields of the record too, all of them optional."""
    more = [(field.name, field.type, None) for field in fields]
    return _line(f"{struct.__name__}WithMore", more, struct)


class Request(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The request of a wrapped line: the model and the caps, never the prompt."""

    model: Label | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    max_output_tokens: Count | None = None


_NO_REQUEST: Final = Request()


class Layout(msgspec.Struct, frozen=True):
    """One shape of a dialect's lines: its decoder, its allowlist, its conversion to columns."""

    struct: type[Struct]
    decoder: msgspec.json.Decoder[Any]
    shape: Shape
    to_columns: Callable[[Sequence[Any]], Columns]
    find_odd: Callable[[Sequence[Any], Columns], set[int]]


def layout(
    struct: type[Struct],
    to_columns: Callable[[Sequence[Any]], Columns],
    find_odd: Callable[[Sequence[Any], Columns], set[int]] = lambda rows, columns: set(),
) -> Layout:
    return Layout(struct, msgspec.json.Decoder(struct), shape_of(struct), to_columns, find_odd)


def layouts(
    response: type[Struct],
    columns: Callable[[Sequence[Any], Sequence[Any]], Columns],
    find_odd: Callable[[Sequence[Any], Columns], set[int]] = lambda bodies, columns: set(),
) -> dict[str, Any]:
    """Return the layouts of a dialect: of lines that are responses, and of those that wrap them.

    `columns` and `find_odd` read responses: the lines themselves, or what is in them.
    """
    own = [
        (each.name, each.type) if each.required else (each.name, each.type, each.default)
        for each in msgspec.structs.fields(response)
        if each.name not in ("model", *Labels.__struct_fields__)
    ]
    # A request may name the model of a response that is wrapped.
    flat = _line("Flat", [("model", ModelName), *own])
    wrapped = _line("Wrapped", [("response", response), ("request", Request | None, None)])

    def layout_of(struct: type[Struct]) -> Layout:
        if "response" not in struct.__struct_fields__:
            return layout(struct, lambda rows: columns(rows, rows), find_odd)
        return layout(
            struct,
            lambda rows: columns(rows, [row.response for row in rows]),
            lambda rows, found: find_odd([row.response for row in rows], found),
        )

    return {
        "flat": layout_of(with_more_labels(flat)),
        "wrapped": layout_of(with_more_labels(wrapped)),
        "without_more_labels": (layout_of(flat), layout_of(wrapped)),
    }


def _line(name: str, fields: Iterable[Any], base: type[Struct] = Labels) -> type[Struct]:
    return msgspec.defstruct(
        name, fields, bases=(base,), kw_only=True, forbid_unknown_fields=True, gc=False
    )


class Dialect(msgspec.Struct, frozen=True):
    """A log format of JSON objects. `names` maps a column to its path in a line, for messages.

    `style` names it for people, `example` is a line of it, and `text_field` is the field of its
    `objects` that holds text and must be removed. `plain_usage` is the least usage of a line.
    """

    name: str
    style: str
    objects: str
    text_field: str
    example: str
    flat: Layout
    wrapped: Layout
    without_more_labels: tuple[Layout, Layout]
    names: dict[str, str]
    plain_usage: dict[str, int] = {}

    def layout_of(self, document: dict[str, Any]) -> Layout:
        is_wrapped = "response" in document or "request" in document
        return self.wrapped if is_wrapped else self.flat


def label_columns(rows: Sequence[Labels], provider: str) -> Columns:
    """Return the columns that depend on labels only; the caller adds `ts` and `request_id`."""
    columns: Columns = {
        "provider": lowered([row.provider or provider for row in rows]),
        "endpoint": [row.endpoint or "" for row in rows],
        "tag": [row.tag or "" for row in rows],
        "prefix_hash": [row.prefix_hash or "" for row in rows],
        "latency_ms": [row.latency_ms for row in rows],
        "declared_max_tokens": [row.declared_max_tokens or 0 for row in rows],
    }
    if rows and hasattr(rows[0], _MORE[0].name):
        for name, get in _OPTIONAL.items():
            columns |= optional_columns(name, list(map(get, rows)))
    return columns


_OPTIONAL: Final = {field.name: attrgetter(field.name) for field in _MORE}


def line_columns(
    rows: Sequence[Any],
    bodies: Sequence[Any],
    provider: str,
    usage: Columns,
    moments: list[Moment],
) -> Columns:
    """Return the columns of lines: of the usage of their bodies, and of our own labels.

    Our labels come first where both exist, before those of a request.
    """
    labels = label_columns(rows, provider)
    both = {
        name: [ours or theirs for ours, theirs in zip(labels[name], usage[name], strict=True)]
        for name in usage.keys() & labels.keys()
    }
    pairs = list(zip(rows, bodies, strict=True))
    columns = {
        **usage,
        **labels,
        **both,
        "ts": to_microseconds(moments),
        "model": [body.model for body in bodies],
        "request_id": [row.request_id or body.id or "" for row, body in pairs],
    }
    if bodies is not rows:
        requests = [row.request or _NO_REQUEST for row in rows]
        columns["model"] = [
            model or request.model or ""
            for model, request in zip(columns["model"], requests, strict=True)
        ]
        columns["declared_max_tokens"] = [
            own or asked.max_tokens or asked.max_completion_tokens or asked.max_output_tokens or 0
            for own, asked in zip(columns["declared_max_tokens"], requests, strict=True)
        ]
    return columns


def first_given(first: list[Any], *others: Iterable[Any]) -> list[Any]:
    """Return the first value of each row that is not null; most often that of the first column."""
    result = first
    for column in others:
        if None not in result:
            break
        others_given = list(column)
        if others_given.count(None) < len(others_given):  # few logs have both names
            pairs = zip(result, others_given, strict=True)
            result = [other if value is None else value for value, other in pairs]
    return result


def to_microseconds(moments: list[Any]) -> list[int | None]:
    """Convert each `Moment` to microseconds since 1970 in UTC, without checking its range."""
    kinds = set(map(type, moments))
    first, last = FIRST_MICROSECOND // SECOND_US, LAST_MICROSECOND // SECOND_US
    if kinds == {int} and first <= min(moments) and max(moments) < last:
        return [moment * SECOND_US for moment in moments]
    if kinds == {datetime}:
        return datetimes_to_microseconds(moments)
    return [_microseconds_of(moment) for moment in moments]


def datetimes_to_microseconds(moments: list[datetime]) -> list[int | None]:
    """Convert times to microseconds since 1970; those without a zone are in UTC."""
    # MessagePack has six bytes for a time in whole seconds with a zone, the last four of which are
    # the seconds since 1970; anything else is longer. To read them is five times faster.
    text, count = msgspec.msgpack.encode(moments), len(moments)
    if count and len(text) <= _ARRAY_START + _MOMENT_BYTES * count:
        packed, seconds = memoryview(text)[-_MOMENT_BYTES * count :], bytearray(4 * count)
        for index in range(4):
            seconds[index::4] = packed[2 + index :: _MOMENT_BYTES]
        return [second * SECOND_US for second in struct.unpack(f">{count}I", seconds)]
    if {moment.tzinfo for moment in moments} == {UTC}:
        return [(moment - EPOCH) // MICROSECOND for moment in moments]
    return [_microseconds_of(moment) for moment in moments]


def _microseconds_of(moment: Moment) -> int | None:
    if moment is None:
        return None
    if isinstance(moment, datetime):
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return (aware - EPOCH) // MICROSECOND
    return scale(moment)
