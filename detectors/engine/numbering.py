"""Sorts and numbers the calls of a frame, and keeps many in little memory."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import and_
from typing import Final, cast

import msgspec
import polars as pl

from detectors.engine.lookup import gather

_LARGEST: Final = 2**63 - 1
_RUN: Final = "run_of_equal_rows"
# Ordering ties by group gathers columns, 30 times what it takes to look at neighbors in the log.
_RARE: Final = 1_000
_SAMPLED: Final = 100_000


def argsort(frame: pl.DataFrame, order: Sequence[str]) -> pl.Series:
    """Return the row numbers in sorted order.

    The first two columns are sorted alone, only tied rows by the third, and only those that are
    tied still by the other columns. That is several times faster than sorting by all columns,
    because some are texts.
    """
    times = frame[order[1]]
    if times.is_sorted():
        # Not by `select`, which copies a frame whose columns have parts of different lengths.
        numbered = frame[order[0]].to_frame().with_row_index("row")
        by_group = numbered.group_by(order[0], maintain_order=True)
        rows = by_group.agg("row").sort(order[0])["row"].explode(empty_as_null=False)
        del numbered, by_group
        falls = _find_few_falls(frame, order[1], order[2])
        if falls is not None:
            return _order_times(frame, order, rows, times.gather(falls).unique())
    else:
        # Two integer columns become one with the same order, if 64 bits are enough.
        major, minor = pl.col(order[0]), pl.col(order[1])
        limits = frame.lazy().select(
            major.max().alias("major"), minor.min().alias("low"), minor.max()
        )
        highest, low, high = limits.collect().row(0)
        span = high - low + 1
        if (highest + 1) * span > _LARGEST:
            return frame.lazy().select(pl.arg_sort_by(order)).collect().to_series()
        packed = major.cast(pl.Int64) * span + (minor - low)
        keyed = frame.lazy().select(packed.alias("key")).with_row_index("row")
        rows = keyed.sort("key").collect()["row"]
    same = _equals_before(_gather(frame, order[:2], rows))
    for names in filter(None, (order[2:3], order[3:])):
        positions = (same | same.shift(-1, fill_value=False)).arg_true()
        if positions.is_empty():
            break
        # Rows of one run are equal so far.
        runs = (~same.gather(positions)).cum_sum().alias(_RUN)
        tied = rows.gather(positions)
        values = pl.DataFrame([runs, *_gather(frame, names, tied)])
        # Many programs count their requests, so that texts need not be sorted.
        _, *others = values.get_columns()
        is_run = runs == runs.shift(1)
        if len(others) > 1 or ((others[0] < others[0].shift(1)) & is_run).any():
            placed = values.select(pl.arg_sort_by(values.columns)).to_series()
            values = values.select(pl.exclude(_RUN).gather(placed))
            rows = rows.scatter(positions, tied.gather(placed))
        equal = _equals_before(values.drop(_RUN, strict=False).get_columns())
        same = same.scatter(positions, same.gather(positions) & equal)
    return rows


def _find_few_falls(frame: pl.DataFrame, major: str, minor: str) -> pl.Series | None:
    """Return such rows; None if they are not rare, which the first ones show."""
    falls = None
    for some in (frame.head(_SAMPLED), frame):
        falls = _find_falls(some, major, minor)
        if len(falls) * _RARE > some.height:
            return None
    return falls


def _find_falls(frame: pl.DataFrame, major: str, minor: str) -> pl.Series:
    """Return rows that equal the row before in a sorted column, and don't rise in the other one.

    Where there are none, calls of equal times are in order in the log, and so in each group.
    """
    is_tied = pl.col(major) == pl.col(major).shift(1)
    is_higher = pl.col(minor) > pl.col(minor).shift(1)
    return frame.lazy().select((is_tied & ~is_higher).arg_true()).collect().to_series()


def _order_times(
    frame: pl.DataFrame, order: Sequence[str], rows: pl.Series, times: pl.Series
) -> pl.Series:
    """Sort the rows of these few times; `rows` are in order of group and time."""
    if times.is_empty():
        return rows
    column = frame[order[1]]
    first, end = column.search_sorted(times, "left"), column.search_sorted(times, "right")
    within = pl.int_ranges(first, end, dtype=pl.UInt32, eager=True).explode()
    placed = pl.DataFrame(list(_gather(frame, order, within))).select(pl.arg_sort_by(order))
    is_within = pl.repeat(False, len(rows), dtype=pl.Boolean, eager=True).scatter(within, True)
    positions = is_within.gather(rows).arg_true()
    return rows.scatter(positions, within.gather(placed.to_series()))


def _gather(frame: pl.DataFrame, names: Sequence[str], rows: pl.Series) -> Iterator[pl.Series]:
    # Not by `select`, which copies a frame whose columns have parts of different lengths. A column
    # in many parts takes twice as long to gather.
    return (frame[name].rechunk()[rows] for name in names)


def _equals_before(columns: Iterable[pl.Series]) -> pl.Series:
    pairs = ((each == each.shift(1)).fill_null(value=False) for each in columns)
    return reduce(and_, pairs)


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
        kind = column.dtype
        if (kind.is_integer() or kind == pl.Boolean) and column.null_count() < len(column):
            low, high = cast("_Ends", (column.min(), column.max()))
            if kind == pl.Int64 and low >= -_NARROW_MOST and high <= _NARROW_MOST:
                kind = pl.Int32()
            if low == high and not column.has_nulls():  # as many counts are
                return column[:1].cast(kind).new_from_index(0, len(column))
        # Whole, because a column in many parts takes two or three times as long to gather.
        return column.cast(kind).rechunk()[rows]

    # A few columns at a time, freed once copied: all at once would take twice the memory.
    with ThreadPoolExecutor(_COPIED_COLUMNS) as pool:
        copied = list(pool.map(copy, list(columns)))
    # Grouping by a column that is known to be sorted takes a tenth of the time.
    copied = [each.set_sorted() if each.name == order[0] else each for each in copied]
    numbered = pl.DataFrame([rows, *copied]).with_row_index(name)
    counts = [n for n in wide if numbered.schema[n] == pl.Int32]
    # Texts are read for few calls, so that their parts need not be merged.
    read = [pl.col(counts).cast(pl.Int64), *(gather(each, _PLACE) for each in texts)]
    return Numbered(numbered, read)
