"""A run of JSON lines into a chunk: quickly where all is well, line by line where it is not.

The quick way decodes the whole run into the vendor's strict structs, so that decoding *is* the
contract check. Whatever it refuses is examined key by key, and only that costs time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from detectors.contract import InvalidRow, UsageRecord
from detectors.errors import MalformedJSONError, NestedTooDeeplyError
from detectors.formats.batches import can_hold_control_characters
from detectors.formats.columns import COLUMNS, Columns, find_unclean_rows, join, select
from detectors.formats.dialects import Dialect, Layout
from detectors.formats.documents import decode_document
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.problems import describe
from detectors.formats.shapes import examine

_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_WHITESPACE: Final = b" \t\r"

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
    parsed = _parse_quickly(lines, can_hold_control_characters(text), dialect)
    if parsed:
        return parsed
    numbered = enumerate(lines, first)
    return _parse_each([line for line in numbered if line[1].strip(_WHITESPACE)], dialect)


def parse_items(items: Sequence[bytes], first: int, dialect: Dialect) -> Parsed:
    """Parse the objects of an array, the first of them being number `first`."""
    parsed = _parse_quickly(items, any(map(can_hold_control_characters, items)), dialect)
    return parsed or _parse_each(list(enumerate(items, first)), dialect)


def _parse_quickly(texts: Sequence[bytes], has_escapes: bool, dialect: Dialect) -> Parsed | None:
    """The parsed run if it is flawless and of one layout, else nothing."""
    for layout in (dialect.flat, dialect.wrapped):
        try:
            rows = list(map(layout.decoder.decode, texts))
        except _REFUSED:
            continue
        columns = layout.to_columns(rows)
        if find_unclean_rows(columns, may_hold_control_characters=has_escapes):
            return None
        return Parsed(columns)
    return None


@dataclass
class _Sorted:
    """The parts that lines are sorted into, each with the numbers of its lines."""

    parts: list[tuple[list[int], Columns]] = field(default_factory=list)
    invalid: list[InvalidRow] = field(default_factory=list)
    strangers: list[tuple[int, str]] = field(default_factory=list)

    def add(self, numbers: list[int], rows: list[Any], layout: Layout, dialect: Dialect) -> None:
        """Take decoded rows: the clean ones as a part, the others as invalid with reasons."""
        if not rows:
            return
        columns = layout.to_columns(rows)
        unclean = find_unclean_rows(columns, may_hold_control_characters=True)
        for row in sorted(unclean):
            self.invalid.append(InvalidRow(numbers[row], _reason(columns, row, dialect)))
        if unclean:
            clean = [row for row in range(len(rows)) if row not in unclean]
            numbers, columns = [numbers[row] for row in clean], select(columns, clean)
        self.parts.append((numbers, columns))

    def parsed(self) -> Parsed:
        """All parts as one, in the order of the lines."""
        self.invalid.sort(key=lambda row: row.line)
        if len(self.parts) == 1:
            return Parsed(self.parts[0][1], self.invalid, self.strangers)
        numbers = [number for part, _ in self.parts for number in part]
        columns = join([columns for _, columns in self.parts])
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        return Parsed(select(columns, order), self.invalid, self.strangers)


def _parse_each(lines: list[Line], dialect: Dialect) -> Parsed:
    found = _Sorted()
    for layout in (dialect.flat, dialect.wrapped):
        numbers, rows, lines = _decode_each(lines, layout)
        found.add(numbers, rows, layout, dialect)
    for layout, numbers, rows in _examine_each(lines, dialect, found):
        found.add(numbers, rows, layout, dialect)
    return found.parsed()


def _decode_each(lines: list[Line], layout: Layout) -> tuple[list[int], list[Any], list[Line]]:
    """The numbers and rows of the lines of this layout, and the other lines."""
    numbers: list[int] = []
    rows: list[Any] = []
    refused: list[Line] = []
    decode = layout.decoder.decode
    for line in lines:
        try:
            rows.append(decode(line[1]))
        except _REFUSED:
            refused.append(line)
        else:
            numbers.append(line[0])
    return numbers, rows, refused


def _examine_each(
    lines: list[Line], dialect: Dialect, found: _Sorted
) -> list[tuple[Layout, list[int], list[Any]]]:
    """Say of each refused line what is wrong, or take it after all, by its layout."""
    taken: dict[int, tuple[Layout, list[int], list[Any]]] = {}
    for number, text in lines:
        outcome = _examine_line(text, dialect)
        if isinstance(outcome, str):
            found.invalid.append(InvalidRow(number, outcome))
        elif isinstance(outcome, list):
            found.strangers += [(number, name) for name in outcome]
        else:
            layout, row = outcome
            _, numbers, rows = taken.setdefault(id(layout), (layout, [], []))
            numbers.append(number)
            rows.append(row)
    return list(taken.values())


def _examine_line(text: bytes, dialect: Dialect) -> str | list[str] | tuple[Layout, Any]:
    """The reason why the row is invalid, the names of its unknown fields, or the row."""
    try:
        document = decode_document(text)
    except NestedTooDeeplyError:
        return ["a key nested too deeply"]
    except MalformedJSONError:
        return "not JSON"
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
    if isinstance(problems, UsageRecord):  # pragma: no cover
        raise AssertionError("a row was taken for unclean that the record's definition accepts")
    return describe(
        problem._replace(field=dialect.names.get(problem.field, problem.field))
        for problem in problems
    )
