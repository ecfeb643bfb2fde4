"""Generic CSV: a header row with the record's field names, in any order and any case.

Cells have no types: `100.0`, as spreadsheets and dataframes write whole numbers, is the integer
100, and an empty cell is absent. Spaces around a cell are ignored.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from detectors.contract import (
    LEVEL_DIGITS,
    MAX_COUNT,
    SECONDS,
    UNITS,
    V2_FIELDS,
    Count,
    Label,
    UsageRecord,
)
from detectors.errors import DetectorError
from detectors.formats.adapters.labels import provider_of
from detectors.formats.checks import find_unclean_rows
from detectors.formats.chunks import Chunk, ChunkParts, join_chunks, take_clean
from detectors.formats.columns import (
    HASHES,
    OPTIONAL_FLOATS,
    Columns,
    columns_of,
    drop_empty,
    empty_value,
    lowered,
    present_columns,
    tier_columns,
)
from detectors.formats.csv_logs.mapping import ColumnMapping, Header, check_header
from detectors.formats.csv_logs.names import BY_MODEL
from detectors.formats.csv_logs.rows import PADDING, Batch, CsvText
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.json_logs.dialect import datetimes_to_microseconds, to_microseconds
from detectors.formats.moments import EPOCH, MICROSECOND, read_moment
from detectors.formats.text.splitting import has_longer_line

_CHUNK_BATCHES: Final = 10
_LONGEST_CELL: Final = 1_000
_CONTROL: Final = bytes({*range(0x20), 0x7F} - {0x0A})
_Seconds = Annotated[float, Meta(ge=0, le=MAX_COUNT)] | None
_TYPES: Final[dict[str, Any]] = {
    **{field.name: field.type for field in V2_FIELDS},
    **dict.fromkeys(UNITS, Count | None),
    **dict.fromkeys(SECONDS, _Seconds),
    "service_tier": Label | None,  # any name: only some tiers have prices of their own
    HASHES: str | None,
}
_provider_of: Final = lru_cache(1_000)(provider_of)
_NO_LEVELS: Final = "-"  # which no check accepts
_PROMPT_PARTS: Final = ("prompt_tokens", "cached_tokens", "cache_write_tokens")

Row = tuple[int, list[str]]
C = TypeVar("C", str, Sequence[str])


def read_csv(
    pieces: Iterator[bytes], delimiter: str = ",", mapping: ColumnMapping | None = None
) -> Iterator[Chunk]:
    text = CsvText(pieces, delimiter)
    cells = [cell.strip().lower() for cell in text.first()]
    try:
        header = mapping.resolve(cells) if mapping else check_header(cells)
    except DetectorError as error:
        error.columns = tuple(cells)
        raise
    table = _Table(header, delimiter)
    yield from _join(map(table.parse, text.rest()))
    for piece in text.pieces():
        chunk = table.parse_piece(piece)
        if chunk:
            text.skip(piece)
            yield chunk
        else:
            yield from _join(map(table.parse, text.read(piece)))


def _join(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    while some := list(islice(chunks, _CHUNK_BATCHES)):
        yield join_chunks(some)


class _Table:
    def __init__(self, header: Header, delimiter: str) -> None:
        self._header = header.fields
        self._kept, self._width = header.kept, header.width
        self._delimiter = delimiter
        self._adds_cached = header.adds_cached
        self._is_by_model = header.provider == BY_MODEL
        self._constants = {"provider": header.provider} if header.provider else {}
        self._names = present_columns(self._header)
        # `array_like`, so that a row of cells is converted by position.
        fields = [(name, _TYPES[name]) for name in self._header]
        self._struct = msgspec.defstruct("CsvRow", fields, array_like=True, gc=False)
        self._list = types.GenericAlias(list, (self._struct,))
        self._columns = {name: types.GenericAlias(list, (_TYPES[name],)) for name in self._header}

    def parse_piece(self, piece: bytes) -> Chunk | None:
        lines = piece.replace(b"\r\n", b"\n") if b"\r" in piece else piece
        cells = _split(lines, self._width, self._delimiter)
        # Cells that are longer than any valid value need the row-by-row reader.
        if cells is None or (
            has_longer_line(lines, _LONGEST_CELL)  # false of most logs, and quickly seen
            and any(max(map(len, column)) > _LONGEST_CELL for column in cells)
        ):
            return None
        # C1 characters need the byte 0xC2.
        may_hold = b"\xc2" in lines or len(lines.translate(None, _CONTROL)) < len(lines)
        return self._parse_cells(cells, may_hold_control_characters=may_hold)

    def parse(self, batch: Batch) -> Chunk:
        """Return the chunk of some rows: column by column, or row by row if there are errors."""
        if set(map(len, batch.rows)) == {self._width}:
            chunk = self._parse_cells(list(zip(*batch.rows, strict=True)))
            if chunk:
                return chunk
        parts, whole = ChunkParts(), list[Row]()
        for line, cells in zip(*batch, strict=True):
            if len(cells) == self._width:
                whole.append((line, list(self._keep(cells))))
            else:
                parts.reject(line, f"expected {self._width} cells" if cells else "not CSV")
        values = [[cell or None for cell in cells] for _, cells in whole]
        lines, rejected = [line for line, _ in whole], list[Row]()
        rows: list[Any] = []
        try:
            rows = msgspec.convert(values, self._list, strict=False)
        except msgspec.ValidationError:  # some don't convert
            lines = []
            for row, given in zip(whole, values, strict=True):
                try:
                    rows.append(msgspec.convert(given, self._struct, strict=False))
                    lines.append(row[0])
                except msgspec.ValidationError:
                    rejected.append(row)
        read: Columns = {}
        for name in self._names:
            empty, get = self._constants.get(name, empty_value(name)), attrgetter(name)
            if name not in self._header:
                read[name] = [empty] * len(rows)
            elif name == HASHES:
                read[name] = [_join_levels(get(row) or "") for row in rows]
            elif name == "ts":
                read[name] = to_microseconds([row.ts for row in rows])
            else:
                read[name] = [get(row) if empty is None else get(row) or empty for row in rows]
        columns = self._finish(read)
        unclean = find_unclean_rows(columns, may_hold_control_characters=True)
        parts.add(*take_clean(lines, columns, unclean))
        unclean_lines = {lines[row] for row in unclean}
        rejected += [row for row in whole if row[0] in unclean_lines]
        self._examine(sorted(rejected), parts)
        return Chunk(parts.columns(), parts.ordered_invalid(), parts.untimed)

    def _parse_cells(
        self, columns_of_cells: Sequence[Sequence[str]], *, may_hold_control_characters: bool = True
    ) -> Chunk | None:
        given = dict(zip(self._header, self._keep(columns_of_cells), strict=True))
        rows = len(columns_of_cells[0])
        try:
            columns = {name: self._read_column(name, given.get(name), rows) for name in self._names}
        except msgspec.ValidationError:
            return None
        columns = self._finish(columns)
        if find_unclean_rows(columns, may_hold_control_characters=may_hold_control_characters):
            return None
        return Chunk(columns, [])

    def _keep(self, cells: Sequence[C]) -> Sequence[C]:
        return cells if self._kept is None else [cells[index] for index in self._kept]

    def _read_column(self, name: str, cells: Sequence[str] | None, rows: int) -> list[Any]:
        empty = self._constants.get(name, empty_value(name))
        if cells is None:
            return [empty] * rows
        if name == "ts":
            with suppress(msgspec.ValidationError):
                return datetimes_to_microseconds(
                    msgspec.convert(cells, list[datetime], strict=False)
                )
            try:
                return [(read_moment(cell) - EPOCH) // MICROSECOND for cell in cells]
            except (ValueError, OverflowError):
                raise msgspec.ValidationError from None
        if name == HASHES:
            return [_join_levels(cell) for cell in cells]
        given: Sequence[str | None] = [c or None for c in cells] if "" in cells else cells
        column: list[Any] = msgspec.convert(given, self._columns[name], strict=False)
        if given is cells or empty is None:
            return column
        return [value or empty for value in column]

    def _finish(self, columns: Columns) -> Columns:
        if self._is_by_model:
            columns["provider"] = list(map(_provider_of, columns["model"]))
        columns["provider"] = lowered(columns["provider"])
        columns |= tier_columns(columns["service_tier"])
        if self._adds_cached:
            counts = zip(*(columns[name] for name in _PROMPT_PARTS), strict=True)
            columns["prompt_tokens"] = list(map(sum, counts))
        return drop_empty(columns)

    def _examine(self, rejected: list[Row], parts: ChunkParts) -> None:
        """Accept rows in unusual notations, and give a reason for each of the others."""
        records: list[UsageRecord] = []
        lines: list[int] = []
        for line, cells in rejected:
            given = {name: cell for name, cell in zip(self._header, cells, strict=True) if cell}
            values = {name: typed(name, cell, self._delimiter) for name, cell in given.items()}
            values |= self._constants
            if self._is_by_model:
                values["provider"] = _provider_of(str(values.get("model", "")))
            if units := {name: values.pop(name) for name in UNITS if name in values}:
                values["units"] = units
            if self._adds_cached and "prompt_tokens" in values:
                values["prompt_tokens"] = sum_counts(values)
            record = read_record(values, LOG_RECORD)
            if isinstance(record, UsageRecord):
                records.append(record)
                lines.append(line)
            else:
                parts.reject(line, record)
        parts.add(lines, columns_of(records))


def typed(name: str, cell: object, delimiter: str = ",") -> object:
    """Convert a cell to the field's type, or return it unchanged for the field to reject."""
    if name == HASHES and isinstance(cell, str):
        return cell.split()
    if isinstance(cell, str) and name in (*OPTIONAL_FLOATS, "latency_ms") and delimiter == ";":
        # Spreadsheets that write semicolons have a comma as the decimal point.
        cell = cell.replace(",", ".")
    if name == "ts" or empty_value(name) != "":
        with suppress(msgspec.ValidationError):
            return msgspec.convert(cell, _TYPES[name], strict=False)
    return cell


def _join_levels(cell: str) -> str:
    """Return the levels of a cell without the spaces between them; others are no levels."""
    levels = cell.split()
    return "".join(levels) if all(len(level) == LEVEL_DIGITS for level in levels) else _NO_LEVELS


def _split(piece: bytes, width: int, delimiter: str) -> list[list[str]] | None:
    """Return the columns of cells if every line has `width` cells, or None.

    One split for all lines: each line break becomes a cell, and these cells are at the end of every
    line only if every line has the right number of cells. None also if quotes do anything but
    enclose whole columns.
    """
    if b"\r" in piece:
        return None
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return None
    if not text.endswith("\n"):
        text += "\n"
    cells = text.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
    breaks = cells[width :: width + 1]
    if len(breaks) * (width + 1) + 1 != len(cells) or breaks.count("\n") != len(breaks):
        return None
    columns = [cells[index : -1 : width + 1] for index in range(width)]
    if " " in text or "\t" in text:
        columns = list(map(_stripped, columns))
    for index, cells in enumerate(columns if '"' in text else ()):
        if '"' in cells[0]:
            inner = [cell[1:-1] for cell in cells if len(cell) > 1 and cell[0] == cell[-1] == '"']
            columns[index] = _stripped(inner) if len(inner) == len(cells) else cells
        if '"' in "".join(columns[index]):
            return None
    return columns


def _stripped(cells: list[str]) -> list[str]:
    """Return a column without the spaces around its cells; most columns have none at all."""
    text = "".join(cells)
    if " " not in text and "\t" not in text:
        return cells
    return [cell.strip(PADDING) for cell in cells]


def sum_counts(values: Mapping[str, object]) -> object:
    """Return the sum of the prompt's parts, or a part that is not a count, to be rejected."""
    counts = [values[name] for name in _PROMPT_PARTS if name in values]
    integers = [count for count in counts if type(count) is int]
    return sum(integers) if len(integers) == len(counts) else values["prompt_tokens"]
