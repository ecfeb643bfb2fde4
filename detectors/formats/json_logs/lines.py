"""A run of JSON lines into a chunk: quickly where all is well, line by line where it is not.

The quick way decodes the whole run into the vendor's strict structs, so that decoding *is* the
contract check. Whatever it refuses is examined key by key, and only that costs time.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from detectors.contract import InvalidRow, UsageRecord
from detectors.errors import MalformedJSONError, NestedTooDeeplyError
from detectors.formats.checks import find_unclean_rows
from detectors.formats.chunks import Parts, take_clean
from detectors.formats.columns import COLUMNS, Columns
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.json_logs.dialect import Dialect, Layout
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.json_logs.shapes import examine
from detectors.formats.problems import describe

_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WHITESPACE: Final = b" \t\r"
_CONTROL_IN_JSON: Final = re.compile(rb"\\(?:[bfnrt]|u00[01789])|\x7f|\xc2[\x80-\x9f]")

Line = tuple[int, bytes]


@dataclass
class Parsed:
    """What became of a run of lines. `strangers` names fields that break the contract, by line."""

    columns: Columns = field(default_factory=lambda: {name: [] for name in COLUMNS})
    invalid: list[InvalidRow] = field(default_factory=list)
    strangers: list[tuple[int, str]] = field(default_factory=list)


def parse_text(text: bytes, first: int, dialect: Dialect) -> Parsed:
    """Parse whole lines, the first of them being line number `first`."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    parsed = None if can_hold_control_characters(text) else _parse_quickly(lines, dialect)
    if parsed:
        return parsed
    numbered = enumerate(lines, first)
    return _parse_each([line for line in numbered if line[1].strip(_WHITESPACE)], dialect)


def parse_items(items: Sequence[bytes], first: int, dialect: Dialect) -> Parsed:
    """Parse the objects of an array, the first of them being number `first`."""
    needs_care = any(map(can_hold_control_characters, items))
    parsed = None if needs_care else _parse_quickly(items, dialect)
    return parsed or _parse_each(list(enumerate(items, first)), dialect)


def _parse_quickly(texts: Sequence[bytes], dialect: Dialect) -> Parsed | None:
    """The parsed run if it is flawless and of one layout, else nothing.

    The texts hold no control characters.
    """
    for layout in (dialect.flat, dialect.wrapped):
        try:
            rows = list(map(layout.decoder.decode, texts))
        except _REFUSED:
            continue
        columns = layout.to_columns(rows)
        if find_unclean_rows(columns, may_hold_control_characters=False):
            return None
        return Parsed(columns)
    return None


def _parse_each(lines: list[Line], dialect: Dialect) -> Parsed:
    parts, strangers = Parts(), list[tuple[int, str]]()
    for layout in (dialect.flat, dialect.wrapped):
        numbers, rows, lines = _decode_each(lines, layout)
        _add(parts, numbers, layout.to_columns(rows), dialect)
    taken: dict[str, tuple[list[int], list[Any]]] = {"flat": ([], []), "wrapped": ([], [])}
    for number, text in lines:
        outcome = _examine_line(text, dialect)
        if isinstance(outcome, str):
            parts.refuse(number, outcome)
        elif isinstance(outcome, list):
            strangers += [(number, name) for name in outcome]
        else:
            taken_numbers, rows = taken["flat" if outcome[0] is dialect.flat else "wrapped"]
            taken_numbers.append(number)
            rows.append(outcome[1])
    _add(parts, taken["flat"][0], dialect.flat.to_columns(taken["flat"][1]), dialect)
    _add(parts, taken["wrapped"][0], dialect.wrapped.to_columns(taken["wrapped"][1]), dialect)
    return Parsed(parts.columns(), parts.ordered_invalid(), strangers)


def _add(parts: Parts, numbers: list[int], columns: Columns, dialect: Dialect) -> None:
    """Take the clean rows of the columns, and refuse the others with a reason."""
    unclean = find_unclean_rows(columns, may_hold_control_characters=True)
    for row in unclean:
        parts.refuse(numbers[row], _reason(columns, row, dialect))
    parts.add(*take_clean(numbers, columns, unclean))


def _decode_each(lines: list[Line], layout: Layout) -> tuple[list[int], list[Any], list[Line]]:
    """The numbers and rows of the lines of this layout, and the other lines.

    A line that can hold control characters is looked at closely: they must not stand in any text,
    also not in one that is dropped.
    """
    numbers: list[int] = []
    rows: list[Any] = []
    refused: list[Line] = []
    decode = layout.decoder.decode
    for line in lines:
        if can_hold_control_characters(line[1]):
            refused.append(line)
            continue
        try:
            rows.append(decode(line[1]))
        except _REFUSED:
            refused.append(line)
        else:
            numbers.append(line[0])
    return numbers, rows, refused


def _examine_line(text: bytes, dialect: Dialect) -> str | list[str] | tuple[Layout, Any]:
    """The reason why the row is invalid, or the names of its unknown fields, or the row."""
    try:
        document = decode_document(text)
    except NestedTooDeeplyError:
        return ["a key nested too deeply"]
    except MalformedJSONError:
        return reason_of(text)
    if not isinstance(document, dict):
        return "not a JSON object"
    layout = dialect.layout_of(document)
    found = examine(document, layout.shape)
    if found.strangers:
        return found.strangers
    if found.problems:
        return describe(found.problems)
    return layout, msgspec.convert(found.values, layout.struct)


def _reason(columns: Columns, row: int, dialect: Dialect) -> str:
    """What is wrong with a row whose types are right."""
    values = {name: columns[name][row] for name in COLUMNS if columns[name][row] not in (None, "")}
    if "ts" in values:
        values["ts"] //= 1_000_000
    problems = read_record(values, LOG_RECORD)
    if isinstance(problems, UsageRecord):  # pragma: no cover - both judge by the same rules
        return "no valid call"
    return describe(
        problem._replace(field=dialect.names.get(problem.field, problem.field))
        for problem in problems
    )


def can_hold_control_characters(json: bytes) -> bool:
    """Whether the strings of a JSON text could: C0 needs an escape, DEL and C1 these bytes.

    The first look costs next to nothing and is enough for most logs; only then are escapes read.
    """
    if b"\\" not in json and b"\x7f" not in json and b"\xc2" not in json:
        return False
    return _CONTROL_IN_JSON.search(json) is not None
