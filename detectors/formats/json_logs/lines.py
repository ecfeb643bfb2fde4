"""Parses the objects of a log, JSON lines or elements of an array: all at once, or one by one.

The fast way decodes all objects into the dialect's strict structs, so decoding is also the contract
check. Only rejected objects are examined key by key, which takes time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from detectors.contract import InvalidRow
from detectors.errors import (
    MalformedJSONError,
    NestedTooDeeplyError,
    TooComplexError,
    UnreadableLogError,
)
from detectors.formats.checks import find_problems, find_unclean_rows
from detectors.formats.chunks import Chunk, ChunkParts, take_clean
from detectors.formats.columns import COLUMNS, Columns
from detectors.formats.json_logs.dialect import Dialect, Layout
from detectors.formats.json_logs.documents import LONG_BYTES, MAX_VALUES, decode_document, reason_of
from detectors.formats.json_logs.rereading import Reread, reread
from detectors.formats.json_logs.shapes import examine
from detectors.formats.problems import ContractCheck, Problem

_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WHITESPACE: Final = b" \t\r"
_CONTROL_IN_JSON: Final = re.compile(rb"\\(?:[bfnrt]|u00[01789])|\x7f|\xc2[\x80-\x9f]")

# The places of examined rows among those of a chunk.
_FLAT, _WRAPPED = 2, 3

Line = tuple[int, bytes]


class Parsed(msgspec.Struct):
    """Consecutive objects, parsed. `unknown_fields` are those outside the contract, by number."""

    columns: Columns = msgspec.field(default_factory=lambda: {name: [] for name in COLUMNS})
    invalid: list[InvalidRow] = []
    unknown_fields: list[tuple[int, str]] = []
    untimed: int = 0


class Rows(NamedTuple):
    layout: Layout
    numbers: list[int]
    values: list[Any]

    def as_columns(self) -> Columns:
        return self.layout.to_columns(self.values)

    def find_odd(self, columns: Columns) -> set[int]:
        return self.layout.find_odd(self.values, columns)


class _Decoded(msgspec.Struct):
    """The rows of each layout, and what is wrong with the other objects."""

    rows: list[Rows | Reread]
    problems: list[tuple[int, str | list[Problem]]] = []
    unknown_fields: list[tuple[int, str]] = []


def read_json(batches: Iterable[Sequence[bytes]], dialect: Dialect, unit: str) -> Iterator[Chunk]:
    """Yield chunks until a field breaks the contract; raise once the error is complete."""
    check, is_clean, first = ContractCheck(unit), True, 1
    try:
        for texts in batches:
            parsed = parse_objects(texts, first, dialect, may_be_blank=unit == "line")
            first += len(texts)
            if parsed.unknown_fields:
                is_clean = False
                check.add(parsed.unknown_fields)
            if is_clean:
                yield Chunk(parsed.columns, parsed.invalid, parsed.untimed)
    except UnreadableLogError:
        check.close()  # fields that came before the unreadable part are reported first
        raise
    if not is_clean:
        check.close()


def parse_objects(
    texts: Sequence[bytes], first: int, dialect: Dialect, *, may_be_blank: bool = True
) -> Parsed:
    """Parse consecutive objects; the first has the number `first`.

    Lines may be blank, and are then skipped; elements of an array may not.
    """
    decoded = _decode_together(texts, first, dialect)
    is_fast = decoded is not None
    if decoded is None:
        lines: Iterable[Line] = enumerate(texts, first)
        if may_be_blank:  # a file of blank lines takes neither time nor memory
            lines = (line for line in lines if line[1].strip(_WHITESPACE))
        objects, others = list[Line](), list[Line]()
        for line in lines:
            (objects if line[1].lstrip().startswith(b"{") else others).append(line)
        flat, objects = _decode_each(objects, dialect.flat)
        wrapped, objects = _decode_each(objects, dialect.wrapped)
        examined = [Rows(layout, [], []) for layout in (dialect.flat, dialect.wrapped)]
        decoded = _Decoded([flat, wrapped, *examined])
        # In order, because the first fields outside the contract are named.
        for number, text in sorted(objects + others):
            _examine(number, text, dialect, decoded)
    parts = ChunkParts()
    odd: list[int] = []
    for rows in decoded.rows:
        columns = rows.as_columns()
        unclean = find_unclean_rows(columns, may_hold_control_characters=not is_fast)
        for row in unclean:
            found = find_problems(columns, row, dialect.names)
            decoded.problems.append((rows.numbers[row], found))
        unusual = rows.find_odd(columns) - unclean
        odd += [rows.numbers[row] for row in unusual]
        parts.add(*take_clean(rows.numbers, columns, unclean | unusual))
    for number in odd:  # their counts need the reader of usage
        document = decode_document(texts[number - first])
        if isinstance(document, dict):
            again = reread(document, number, dialect, dialect.layout_of(document))
            if isinstance(again, Reread):
                parts.add(again.numbers, again.columns)
    for number, problems in decoded.problems:
        parts.reject(number, problems)
    invalid = parts.ordered_invalid()
    return Parsed(parts.columns(), invalid, decoded.unknown_fields, parts.untimed)


def _decode_together(texts: Sequence[bytes], first: int, dialect: Dialect) -> _Decoded | None:
    """Return the rows if all texts are of one layout and hold no control characters, or None."""
    if max(map(len, texts), default=0) > LONG_BYTES:
        return None
    # To join them takes 80 bytes for each text, so a file of blank lines would take much memory.
    if not all(texts):
        return None
    if can_hold_control_characters(b"\n".join(texts)):
        return None
    for layout in (*dialect.without_more_labels, dialect.flat, dialect.wrapped):
        try:
            values = list(map(layout.decoder.decode, texts))
        except _DECODE_ERRORS:
            continue
        return _Decoded([Rows(layout, list(range(first, first + len(values))), values)])
    return None


def _decode_each(lines: list[Line], layout: Layout) -> tuple[Rows, list[Line]]:
    """Return the rows of the lines in this layout, and the other lines.

    Lines that may hold control characters are rejected here and examined later: no text may contain
    them, even a text that we drop. So are lines that are too long for this decoder.
    """
    numbers: list[int] = []
    values: list[Any] = []
    rejected: list[Line] = []
    decode = layout.decoder.decode
    for line in lines:
        if len(line[1]) > LONG_BYTES or can_hold_control_characters(line[1]):
            rejected.append(line)
            continue
        try:
            values.append(decode(line[1]))
        except _DECODE_ERRORS:
            rejected.append(line)
        else:
            numbers.append(line[0])
    return Rows(layout, numbers, values), rejected


def _examine(number: int, text: bytes, dialect: Dialect, decoded: _Decoded) -> None:
    try:
        document = decode_document(text)
    except NestedTooDeeplyError:
        decoded.unknown_fields.append((number, "a key nested too deeply"))
        return
    except TooComplexError:
        decoded.unknown_fields.append((number, f"more than {MAX_VALUES:,} values"))
        return
    except MalformedJSONError:
        decoded.problems.append((number, reason_of(text)))
        return
    if not isinstance(document, dict):
        decoded.problems.append((number, "not a JSON object"))
        return
    layout = dialect.layout_of(document)
    found = examine(document, layout.shape)
    if found.unknown_fields:
        read = reread(document, number, dialect, layout)
        if isinstance(read, Reread):
            decoded.rows.append(read)
            return
        found = read or found
    if found.unknown_fields:
        decoded.unknown_fields += [(number, name) for name in found.unknown_fields]
    elif found.problems:
        decoded.problems.append((number, found.problems))
    else:
        rows = decoded.rows[_WRAPPED if layout is dialect.wrapped else _FLAT]
        assert isinstance(rows, Rows)  # noqa: S101 - for types: the first four are
        rows.numbers.append(number)
        rows.values.append(msgspec.convert(found.values, layout.struct))


def can_hold_control_characters(json: bytes) -> bool:
    """Check whether strings of a JSON text may hold control characters.

    C0 needs an escape, DEL and C1 need these bytes. The cheap first check is enough for most logs.
    """
    if b"\\" not in json and b"\x7f" not in json and b"\xc2" not in json:
        return False
    return _CONTROL_IN_JSON.search(json) is not None
