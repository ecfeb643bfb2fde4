"""Finds the rows of a small Polars table by their labels, without a join.

A category is a small integer, and so the row of some labels is in an array at the position that
their categories give together. A join takes four times as long.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Final, Self, cast

import msgspec
import polars as pl

RowFinder = Callable[[pl.Series], pl.Series]

NO_ROW: Final = -1
_ROW: Final = "row_of_table"
_MOST_POSITIONS: Final = 2**22


def row_finder(keys: pl.DataFrame) -> RowFinder:
    """Return a function of a struct of labels that finds the row with them, or `NO_ROW`.

    Rows are never null, because looking up many values by a column with nulls takes twice as long.
    """
    are_categories = all(kind == pl.Categorical for kind in keys.dtypes)
    if are_categories and (finder := _Positions.of(keys)) is not None:
        return finder.find
    on, row = keys.columns, pl.int_range(pl.len(), dtype=pl.Int32).alias(_ROW)
    numbers = keys.with_columns(row)

    def find(labels: pl.Series) -> pl.Series:
        given = labels.struct.unnest()
        joined = given.join(numbers, on=on, how="left", maintain_order="left")
        return joined[_ROW].fill_null(NO_ROW)

    return find


class _Positions(msgspec.Struct, frozen=True):
    """The rows of a table by position: a number in the base of each column's distinct labels.

    `codes` number the labels of a column from 1 by their category; 0 is any other. The labels are
    kept because categories keep their numbers only as long as some column has them.
    """

    keys: pl.DataFrame
    codes: Sequence[pl.Series]
    bases: Sequence[int]
    rows: pl.Series

    @classmethod
    def of(cls, keys: pl.DataFrame) -> Self | None:
        codes = []
        for column in keys.get_columns():
            # The number of each category in the column, and 0 for those after its last.
            used = column.to_physical().unique().sort()
            none = pl.zeros(used[-1] + 2 if len(used) else 1, dtype=pl.UInt32, eager=True)
            places = pl.int_range(1, len(used) + 1, dtype=pl.UInt32, eager=True)
            codes.append(none.scatter(used, places))
        bases = [cast("int", each.max()) + 1 for each in codes]
        most = prod(bases)
        if most > _MOST_POSITIONS or max(map(len, codes)) > _MOST_POSITIONS:
            return None
        rows = pl.repeat(NO_ROW, most, dtype=pl.Int32, eager=True)
        found = cls(keys, codes, bases, rows)
        at = found._locate(keys)
        numbers = pl.int_range(keys.height, dtype=pl.Int32, eager=True)
        return cls(keys, codes, bases, rows.scatter(at, numbers))

    def find(self, labels: pl.Series) -> pl.Series:
        return self.rows[self._locate(labels.struct.unnest())]

    def _locate(self, labels: pl.DataFrame) -> pl.Series:
        first, *others = map(_find_codes, labels.get_columns(), self.codes)
        pairs = zip(self.bases[1:], others, strict=True)
        return reduce(lambda at, pair: at * pair[0] + pair[1], pairs, first)


def _find_codes(labels: pl.Series, codes: pl.Series) -> pl.Series:
    category, last = labels.to_physical(), len(codes) - 1
    # Other categories are all in the last position. Few calls have one, and finding the largest
    # takes a hundredth of the time of replacing those above.
    if len(category) and cast("int", category.max()) > last:
        category = category.clip(upper_bound=last)
    return codes[category]


def look_up(values: pl.Series, key: str) -> pl.Expr:
    """Return the values at the positions in a column, or the only value that they can have."""
    if values.n_unique() == 1:
        return pl.lit(values.first(), values.dtype).alias(values.name)
    return gather(values, key)


def gather(values: pl.Series, key: str) -> pl.Expr:
    """Return the values at the positions in a column, with or without other rows."""
    # Positions without a sign need no check for negative ones, which takes half of the time.
    at = pl.col(key).cast(pl.UInt32, wrap_numerical=True)
    looked_up = at.map_batches(values.__getitem__, return_dtype=values.dtype, is_elementwise=True)
    return looked_up.alias(values.name)
