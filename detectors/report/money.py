"""Exact sums of dollars, whatever the order of rows or threads.

A parallel sum of floats differs in its last bits between audits, so a rounded figure sometimes
differs in a digit. Sums of integers do not: each amount becomes whole units, of 128 bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl

from detectors.engine import Calls

UNITS_PER_USD: Final = 10**18
_NANO_USD: Final = Decimal("1e-9")


def sum_usd(
    calls: Calls, *names: str, by: Sequence[str] = (), others: Iterable[pl.Expr] = ()
) -> Calls:
    """Sum columns of dollars by these keys, beside other aggregates; `usd` reads the sums."""
    wholes = [_units(name).floor().alias(_whole(name)) for name in names]
    # The difference is exact, and so is the sum: units with a fraction are below 2 ** 53.
    rounded_up = [
        (pl.col(_whole(name)) + (_units(name) - pl.col(_whole(name)) >= 0.5).cast(pl.Float64))
        .cast(pl.Int128)
        .alias(_whole(name))
        for name in names
    ]
    units = calls.with_columns(wholes).with_columns(rounded_up)
    aggregates = [*others, *(pl.col(_whole(name)).sum() for name in names)]
    return units.group_by(by).agg(aggregates) if by else units.select(aggregates)


def add_usd(sums: Calls, *names: str, by: Sequence[str], others: Iterable[pl.Expr] = ()) -> Calls:
    """Add up the sums of columns that `sum_usd` returned, as `sum_usd` does."""
    return sums.group_by(by).agg(*others, *(pl.col(_whole(name)).sum() for name in names))


def _units(name: str) -> pl.Expr:
    return pl.col(name) * float(UNITS_PER_USD)


def usd(row: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(int(row[_whole(name)] or 0)) / UNITS_PER_USD


def _whole(name: str) -> str:
    return f"{name}_units"


def rounded(amount: Decimal | float) -> Decimal:
    """Round to 9 decimals, as the report writes dollars; zero is a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
