"""Exact sums of dollars, whatever the order of rows or threads.

A parallel sum of floats differs in its last bits between audits, so a rounded figure sometimes
differs in a digit. Sums of integers do not: each amount becomes whole units, of 128 bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl

from detectors.engine import Calls, collect

UNITS_PER_USD: Final = 10**18
_NANO_USD: Final = Decimal("1e-9")


def sum_usd(
    calls: Calls, *names: str, by: Sequence[str] = (), others: Iterable[pl.Expr] = ()
) -> Calls:
    """Sum columns of dollars by these keys, beside other aggregates; `usd` reads the sums."""
    return _sum(calls, names, by, others, pl.Int128)


def collect_usd(
    calls: Calls, *names: str, by: Sequence[str] = (), others: Sequence[pl.Expr] = ()
) -> pl.DataFrame:
    """Return the sums of `sum_usd`.

    Where no call has over nine dollars, 64 bits hold its units, which takes two thirds of the time.
    """
    try:
        return collect(_sum(calls, names, by, others, pl.Int64))
    except pl.exceptions.InvalidOperationError:
        return collect(sum_usd(calls, *names, by=by, others=others))


def _sum(
    calls: Calls,
    names: Sequence[str],
    by: Sequence[str],
    others: Iterable[pl.Expr],
    kind: type[pl.Int64 | pl.Int128],
) -> Calls:
    units = calls.with_columns(
        (pl.col(name) * float(UNITS_PER_USD)).round().cast(kind).cast(pl.Int128).alias(_whole(name))
        for name in names
    )
    aggregates = [*others, *(pl.col(_whole(name)).sum() for name in names)]
    return units.group_by(by).agg(aggregates) if by else units.select(aggregates)


def add_usd(sums: Calls, *names: str, by: Sequence[str], others: Iterable[pl.Expr] = ()) -> Calls:
    """Add up the sums of columns that `sum_usd` returned, as `sum_usd` does."""
    return sums.group_by(by).agg(*others, *(pl.col(_whole(name)).sum() for name in names))


def usd(row: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(int(row[_whole(name)] or 0)) / UNITS_PER_USD


def _whole(name: str) -> str:
    return f"{name}_units"


def rounded(amount: Decimal | float) -> Decimal:
    """Round to 9 decimals, as the report writes dollars; zero is a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
