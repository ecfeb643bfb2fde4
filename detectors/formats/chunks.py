"""Chunks of a bounded number of rows: valid rows as columns, invalid rows with reasons."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from detectors.contract import InvalidRow
from detectors.formats.columns import COLUMNS, Columns, empty_value, present_columns
from detectors.formats.problems import Problem, describe


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive rows of a log: valid rows as columns, invalid rows with their reasons.

    `untimed` is the number of invalid rows without a time, and `dropped` counts rows that were no
    calls to bill, by reason.
    """

    columns: Columns
    invalid: list[InvalidRow]
    untimed: int = 0
    dropped: Mapping[str, int] = {}

    @property
    def rows(self) -> int:
        return len(self.columns[COLUMNS[0]]) + len(self.invalid)


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    names = present_columns(name for chunk in chunks for name in chunk.columns)
    columns = {
        name: list(chain.from_iterable(_column(chunk.columns, name) for chunk in chunks))
        for name in names
    }
    invalid = [row for chunk in chunks for row in chunk.invalid]
    return Chunk(columns, invalid, sum(chunk.untimed for chunk in chunks))


def _column(columns: Columns, name: str) -> list[Any]:
    if name in columns:
        return columns[name]
    return [empty_value(name)] * len(columns[COLUMNS[0]])


class ChunkParts(msgspec.Struct):
    invalid: list[InvalidRow] = []
    untimed: int = 0
    _numbers: Sequence[int] = ()
    _columns: Columns = msgspec.field(default_factory=lambda: {name: [] for name in COLUMNS})
    _is_ordered: bool = True

    def add(self, numbers: Sequence[int], columns: Columns) -> None:
        if not numbers:
            return
        if not self._numbers:
            # Most often these rows are all, and copying them would take as long as encoding them.
            self._numbers, self._columns = numbers, columns
            return
        if self._numbers[-1] > numbers[0]:
            self._is_ordered = False
        names = present_columns([*self._columns, *columns])
        self._columns = {
            name: _column(self._columns, name) + _column(columns, name) for name in names
        }
        self._numbers = [*self._numbers, *numbers]

    def reject(self, number: int, reason: str | list[Problem]) -> None:
        if not isinstance(reason, str):
            self.untimed += any(p.kind == "missing" and "ts" in p.field.split() for p in reason)
            reason = describe(reason)
        self.invalid.append(InvalidRow(number, reason))

    def columns(self) -> Columns:
        """Return the columns of all valid rows, sorted by row number."""
        if self._is_ordered:
            return self._columns
        order = sorted(range(len(self._numbers)), key=self._numbers.__getitem__)
        return {name: _pick(column, order) for name, column in self._columns.items()}

    def ordered_invalid(self) -> list[InvalidRow]:
        return sorted(self.invalid, key=lambda row: row.line)


def take_clean(
    numbers: Sequence[int], columns: Columns, unclean: set[int]
) -> tuple[Sequence[int], Columns]:
    """Return the columns and row numbers without the unclean rows."""
    if not unclean:
        return numbers, columns
    clean = [row for row in range(len(numbers)) if row not in unclean]
    picked = {name: _pick(column, clean) for name, column in columns.items()}
    return _pick(numbers, clean), picked


def _pick(column: Sequence[Any], rows: list[int]) -> list[Any]:
    return [column[row] for row in rows]
