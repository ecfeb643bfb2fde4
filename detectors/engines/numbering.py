"""Numbers the calls of a Polars frame in their order, and keeps many in little memory."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import msgspec
import polars as pl

from detectors.engines.lookup import gather
from detectors.engines.sorting import argsort

_COPIED_COLUMNS: Final = 4  # at once
_PLACE: Final = "place_before_sorting"
_NARROW_MOST: Final = 2**31 - 1


class Numbered(msgspec.Struct, frozen=True):
    """The calls that `number_rows` has sorted, and what makes of them the columns of the rules."""

    frame: pl.DataFrame
    columns: Sequence[pl.Expr]

    def has(self, names: Sequence[str]) -> bool:
        return set(names) <= set(self.read().collect_schema().names())

    def read(self, numbers: pl.Series | None = None) -> pl.LazyFrame:
        """Return all calls, or those with these numbers."""
        rows = self.frame.lazy()
        if numbers is not None:
            rows = rows.select(pl.all().gather(numbers))
        return rows.with_columns(self.columns)


def number_rows(
    only_reference: list[pl.DataFrame],
    name: str,
    order: Sequence[str],
    kept: Sequence[str],
    *,
    has_few_calls: bool,
) -> Numbered:
    """Number and sort the calls in the list, which is emptied so that copied columns are freed.

    Of many calls, texts stay where they are until they are read, and counts take 32 bits if
    they fit.
    """
    frame = only_reference.pop()
    rows = argsort(frame, order).alias(_PLACE)
    # Not by `select`, which copies a frame whose columns have parts of different lengths.
    columns = {column: frame[column] for column in kept}
    del frame
    texts = []
    if not has_few_calls:
        texts = [columns.pop(n) for n in kept if columns[n].dtype == pl.String]
    wide = [n for n, column in columns.items() if column.dtype == pl.Int64]

    def copy(name: str) -> pl.Series:
        column = columns.pop(name)
        if has_few_calls:
            return column.gather(rows)
        if _has_one_value(column):
            return _narrow(column[:1]).new_from_index(0, len(column))
        # Whole, because a column in many parts takes two or three times as long to gather.
        return _narrow(column).rechunk().gather(rows)

    # A few columns at a time, freed once copied: all at once would take twice the memory.
    with ThreadPoolExecutor(_COPIED_COLUMNS) as pool:
        copy_each = map if has_few_calls else pool.map
        copied = list(copy_each(copy, list(columns)))
    numbered = pl.DataFrame([rows, *copied]).with_row_index(name)
    counts = [n for n in wide if numbered.schema[n] == pl.Int32]
    # Texts are read for few calls, so that their parts need not be merged.
    read = [pl.col(counts).cast(pl.Int64), *(gather(each, _PLACE) for each in texts)]
    return Numbered(numbered, read)


def _has_one_value(column: pl.Series) -> bool:
    """Check for one number in all rows, such as of a count that no call has."""
    is_whole = column.dtype.is_integer() or column.dtype == pl.Boolean
    if not is_whole or column.is_empty() or column.has_nulls():
        return False
    return column.min() == column.max()


def _narrow(column: pl.Series) -> pl.Series:
    """Return integers of 64 bits with 32 if all of them fit."""
    if column.dtype != pl.Int64 or column.is_empty():
        return column
    least, most = cast("tuple[int, int]", (column.min(), column.max()))
    fits = least >= -_NARROW_MOST and most <= _NARROW_MOST
    return column.cast(pl.Int32) if fits else column
