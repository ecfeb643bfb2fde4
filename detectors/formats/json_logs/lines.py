"""Parses consecutive JSON lines into a chunk: all at once, or line by line if there are errors.

The fast way decodes all lines into the dialect's strict structs, so decoding is also the contract
check. Only rejected lines are examined key by key, which takes time.
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

_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WHITESPACE: Final = b" \t\r"
_CONTROL_IN_JSON: Final = re.compile(rb"\\(?:[bfnrt]|u00[01789])|\x7f|\xc2[\x80-\x9f]")

Line = tuple[int, bytes]


@dataclass
class Parsed:
    """Consecutive lines, parsed. `unknown_fields` are those outside the contract, by line."""

    columns: Columns = field(default_factory=lambda: {name: [] for name in COLUMNS})
    invalid: list[InvalidRow] = field(default_factory=list)
    unknown_fields: list[tuple[int, str]] = field(default_factory=list)


def parse_text(text: bytes, first: int, dialect: Dialect) -> Parsed:
    """Parse whole lines; the first has the number `first`."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    parsed = None if can_hold_control_characters(text) else _parse_valid(lines, dialect)
    if parsed:
        return parsed
    numbered = enumerate(lines, first)
    return _parse_each([line for line in numbered if line[1].strip(_WHITESPACE)], dialect)


def parse_items(items: Sequence[bytes], first: int, dialect: Dialect) -> Parsed:
    """Parse the objects of an array; the first has the number `first`."""
    needs_care = any(map(can_hold_control_characters, items))
    parsed = None if needs_care else _parse_valid(items, dialect)
    return parsed or _parse_each(list(enumerate(items, first)), dialect)


def _parse_valid(texts: Sequence[bytes], dialect: Dialect) -> Parsed | None:
    """Return the parsed lines if all are valid and of one layout, or None.

    The caller has checked that the texts contain no control characters.
    """
    for layout in (dialect.flat, dialect.wrapped):
        try:
            rows = list(map(layout.decoder.decode, texts))
        except _DECODE_ERRORS:
            continue
        columns = layout.to_columns(rows)
        if find_unclean_rows(columns, may_hold_control_characters=False):
            return None
        return Parsed(columns)
    return None


def _parse_each(lines: list[Line], dialect: Dialect) -> Parsed:
    parts, unknown_fields = Parts(), list[tuple[int, str]]()
    for layout in (dialect.flat, dialect.wrapped):
        numbers, rows, lines = _decode_each(lines, layout)
        _add(parts, numbers, layout.to_columns(rows), dialect)
    taken: dict[str, tuple[list[int], list[Any]]] = {"flat": ([], []), "wrapped": ([], [])}
    for number, text in lines:
        outcome = _examine_line(text, dialect)
        if isinstance(outcome, str):
            parts.reject(number, outcome)
        elif isinstance(outcome, list):
            unknown_fields += [(number, name) for name in outcome]
        else:
            taken_numbers, rows = taken["flat" if outcome[0] is dialect.flat else "wrapped"]
            taken_numbers.append(number)
            rows.append(outcome[1])
    _add(parts, taken["flat"][0], dialect.flat.to_columns(taken["flat"][1]), dialect)
    _add(parts, taken["wrapped"][0], dialect.wrapped.to_columns(taken["wrapped"][1]), dialect)
    return Parsed(parts.columns(), parts.ordered_invalid(), unknown_fields)


def _add(parts: Parts, numbers: list[int], columns: Columns, dialect: Dialect) -> None:
    """Add the valid rows of the columns, and reject the others with a reason."""
    unclean = find_unclean_rows(columns, may_hold_control_characters=True)
    for row in unclean:
        parts.reject(numbers[row], _reason(columns, row, dialect))
    parts.add(*take_clean(numbers, columns, unclean))


def _decode_each(lines: list[Line], layout: Layout) -> tuple[list[int], list[Any], list[Line]]:
    """Return the numbers and rows of the lines in this layout, and the other lines.

    Lines that may hold control characters are rejected here and examined later: no text may contain
    them, even a text that we drop.
    """
    numbers: list[int] = []
    rows: list[Any] = []
    rejected: list[Line] = []
    decode = layout.decoder.decode
    for line in lines:
        if can_hold_control_characters(line[1]):
            rejected.append(line)
            continue
        try:
            rows.append(decode(line[1]))
        except _DECODE_ERRORS:
            rejected.append(line)
        else:
            numbers.append(line[0])
    return numbers, rows, rejected


def _examine_line(text: bytes, dialect: Dialect) -> str | list[str] | tuple[Layout, Any]:
    """Return the reason why the line is invalid, the names of its unknown fields, or its row."""
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
    if found.unknown_fields:
        return found.unknown_fields
    if found.problems:
        return describe(found.problems)
    return layout, msgspec.convert(found.values, layout.struct)


def _reason(columns: Columns, row: int, dialect: Dialect) -> str:
    """Describe the problems of a row whose types are valid."""
    values = {name: columns[name][row] for name in COLUMNS if columns[name][row] not in (None, "")}
    if "ts" in values:
        values["ts"] //= 1_000_000
    problems = read_record(values, LOG_RECORD)
    if isinstance(problems, UsageRecord):  # pragma: no cover - the same rules rejected it
        return "not a valid call"
    return describe(
        problem._replace(field=dialect.names.get(problem.field, problem.field))
        for problem in problems
    )


def can_hold_control_characters(json: bytes) -> bool:
    """Check whether strings of a JSON text may hold control characters.

    C0 needs an escape, DEL and C1 need these bytes. The cheap first check is enough for most logs.
    """
    if b"\\" not in json and b"\x7f" not in json and b"\xc2" not in json:
        return False
    return _CONTROL_IN_JSON.search(json) is not None
