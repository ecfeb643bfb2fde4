"""Generic CSV: a header row with the record's field names, in any order and any case.

Cells have no types of their own: `100.0`, as spreadsheets and dataframes write whole numbers,
is the integer 100, and an empty cell is absent.
"""

import csv
import types
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from detectors.contract import (
    RECORD_FIELDS,
    REQUIRED_FIELDS,
    InvalidRow,
    Label,
    UsageRecord,
)
from detectors.errors import UnreadableLogError
from detectors.formats.chunks import Chunk
from detectors.formats.columns import COLUMNS, COUNTS, columns_of, find_unclean_rows
from detectors.formats.dialects import to_microseconds
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.problems import Offender, contract_error, describe, shown_name, unknown

_CHUNK_ROWS: Final = 20_000
_TYPES: Final[dict[str, Any]] = {
    field.name: field.type for field in msgspec.structs.fields(UsageRecord)
}

Row = tuple[int, list[str]]


def parse_header(line: str) -> list[str]:
    """The cells of a header line in lower case; empty where it is no CSV at all."""
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def is_header(cells: Sequence[str]) -> bool:
    """Whether the cells are field names at all: data, or text, is not taken for a header."""
    return len(set(cells) & set(RECORD_FIELDS)) >= 2


def check_header(cells: Sequence[str]) -> None:
    """Raise `ContractError` for unknown columns, `UnreadableLogError` for missing or double."""
    strangers = [
        Offender("header", unknown(shown_name(cell, f"column {number}")))
        for number, cell in enumerate(cells, 1)
        if cell not in RECORD_FIELDS
    ]
    if strangers:
        raise contract_error(strangers)
    absent = [name for name in REQUIRED_FIELDS if name not in cells]
    if absent:
        raise UnreadableLogError(f"expected a CSV header with the columns {', '.join(absent)} too")
    if len(set(cells)) < len(cells):
        raise UnreadableLogError("expected a CSV header that names each column once")


def read_csv(pieces: Iterator[bytes]) -> Iterator[Chunk]:
    """The chunks of a CSV text that comes in whole lines."""
    rows = _Rows(pieces)
    first = next(rows, None)
    header = [cell.strip().lower() for cell in first[1]] if first else []
    check_header(header)
    while batch := rows.take(_CHUNK_ROWS):
        yield _parse(header, batch, rows.take_errors())


class _Rows:
    """The rows of a CSV text with the numbers of the lines they start on; blank ones left out."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._reader = csv.reader(_lines_of(pieces))
        self._errors: list[InvalidRow] = []

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        while True:
            line = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except csv.Error:
                self._errors.append(InvalidRow(line, "not CSV"))
                return line, []
            if cells:
                return line, cells

    def take(self, count: int) -> list[Row]:
        """Up to so many rows; a row that is not CSV is empty and among the errors."""
        return [row for row, _ in zip(self, range(count), strict=False)]

    def take_errors(self) -> list[InvalidRow]:
        errors, self._errors = self._errors, []
        return errors


def _lines_of(pieces: Iterator[bytes]) -> Iterator[str]:
    # What is not UTF-8 becomes lone surrogates, which no label may hold: the row is invalid.
    for piece in pieces:
        lines = piece.decode("utf-8", "surrogateescape").split("\n")
        last = lines.pop()
        for line in lines:
            yield f"{line}\n"
        if last:
            yield last


def _parse(header: list[str], batch: list[Row], errors: list[InvalidRow]) -> Chunk:
    """One chunk: all columns at once where all is well, else row by row."""
    width = len(header)
    whole = [row for row in batch if len(row[1]) == width]
    ragged = [
        InvalidRow(line, f"expected {width} cells")
        for line, cells in batch
        if cells and len(cells) != width
    ]
    chunk = _parse_columns(header, whole) or _parse_each(header, whole)
    every = sorted([*ragged, *errors, *chunk.invalid], key=lambda row: row.line)
    return Chunk(chunk.columns, every)


def _parse_columns(header: list[str], rows: list[Row]) -> Chunk | None:
    """The chunk of rows without anything wrong in them, else nothing."""
    by_name = dict(zip(header, zip(*(cells for _, cells in rows), strict=True), strict=False))
    try:
        columns = {name: _convert(name, by_name.get(name), len(rows)) for name in COLUMNS}
    except msgspec.ValidationError:
        return None
    if find_unclean_rows(columns, may_hold_control_characters=True):
        return None
    return Chunk(columns, [])


def _convert(name: str, cells: Sequence[str] | None, count: int) -> list[Any]:
    """The column's values as they stand in `Columns`; `ValidationError` for a wrong cell."""
    if name == "ts":
        return to_microseconds(msgspec.convert(cells or (), list[datetime], strict=False))
    if name == "latency_ms" or name in COUNTS:
        given = [cell or None for cell in cells] if cells else [None] * count
        values = _convert_all(given, _TYPES[name])
        return values if name == "latency_ms" else [value or 0 for value in values]
    if cells is None:
        return [""] * count
    # An empty hash would be too short for its type.
    return _convert_all(cells, Label if name == "prefix_hash" else _TYPES[name])


def _convert_all(cells: Sequence[str | None], kind: Any) -> list[Any]:
    values: list[Any] = msgspec.convert(cells, types.GenericAlias(list, (kind,)), strict=False)
    return values


def _parse_each(header: list[str], rows: list[Row]) -> Chunk:
    records: list[UsageRecord] = []
    invalid: list[InvalidRow] = []
    for line, cells in rows:
        given = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
        record = read_record({name: _typed(name, given[name]) for name in given}, LOG_RECORD)
        if isinstance(record, UsageRecord):
            records.append(record)
        else:
            invalid.append(InvalidRow(line, describe(record)))
    return Chunk(columns_of(records), invalid)


def _typed(name: str, cell: str) -> object:
    """The cell as the field's type, or as it is where the field has to refuse it."""
    try:
        if name == "ts":
            return msgspec.convert(cell, datetime, strict=False)
        if name == "latency_ms" or name in COUNTS:
            return msgspec.convert(cell, _TYPES[name], strict=False)
    except msgspec.ValidationError:
        pass
    return cell
