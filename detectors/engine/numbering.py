"""Sorts and numbers the calls of a frame, and keeps many in little memory."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import msgspec
import polars as pl

from detectors.engine.lookup import gather
from detectors.engine.sorting import argsort

_COPIED_COLUMNS: Final = 4  # at once
_PLACE: Final = "place_before_sorting"
_NARROW_MOST: Final = 2**31 - 1
_Ends = tuple[int, int]


class Numbered(msgspec.Struct, frozen=True):
    """The calls that `number_rows` has sorted, and what makes of them the columns of the rules."""

    frame: pl.DataFrame
    columns: Sequence[pl.Expr]

    def read(self, numbers: pl.Series | None = None) -> pl.LazyFrame:
        rows = self.frame.lazy()
        if numbers is not None:
            rows = rows.select(pl.all().gather(numbers))
        return rows.with_columns(self.columns)


def number_rows(
    only_reference: list[pl.DataFrame], name: str, order: Sequence[str], kept: Sequence[str]
) -> Numbered:
    """Number and sort the calls in the list, which is emptied so that copied columns are freed.

    Texts stay where they are until they are read, and counts take 32 bits if they fit.
    """
    frame = only_reference.pop()
    rows = argsort(frame, order).alias(_PLACE)
    # Not by `select`, which copies a frame whose columns have parts of different lengths.
    columns = {column: frame[column] for column in kept}
    del frame
    texts = [columns.pop(n) for n in kept if columns[n].dtype == pl.String]
    wide = [n for n, column in columns.items() if column.dtype == pl.Int64]

    def copy(name: str) -> pl.Series:
        column = columns.pop(name)
        ends = _find_ends(column)
        kind = _narrowest(column.dtype, ends)
        if ends is not None and ends[0] == ends[1] and not column.has_nulls():
            return column[:1].cast(kind).new_from_index(0, len(column))
        # Whole, because a column in many parts takes two or three times as long to gather.
        return column.cast(kind).rechunk().gather(rows)

    # A few columns at a time, freed once copied: all at once would take twice the memory.
    with ThreadPoolExecutor(_COPIED_COLUMNS) as pool:
        copied = list(pool.map(copy, list(columns)))
    numbered = pl.DataFrame([rows, *copied]).with_row_index(name)
    counts = [n for n in wide if numbered.schema[n] == pl.Int32]
    # Texts are read for few calls, so that their parts need not be merged.
    read = [pl.col(counts).cast(pl.Int64), *(gather(each, _PLACE) for each in texts)]
    return Numbered(numbered, read)


def _find_ends(column: pl.Series) -> _Ends | None:
    """Return the least and the greatest of whole numbers, which are equal for many counts."""
    is_whole = column.dtype.is_integer() or column.dtype == pl.Boolean
    if not is_whole or column.null_count() == len(column):
        return None
    return cast("_Ends", (column.min(), column.max()))


def _narrowest(kind: pl.DataType, ends: _Ends | None) -> pl.DataType:
    """Return 32 bits instead of 64 for integers between these ends if all of them fit."""
    if kind != pl.Int64 or ends is None:
        return kind
    fits = ends[0] >= -_NARROW_MOST and ends[1] <= _NARROW_MOST
    return pl.Int32() if fits else kind
