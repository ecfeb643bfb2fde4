"""Exact sums of dollars, whatever the order of rows or threads.

A parallel sum of floats differs in its last bits between audits, so a rounded figure sometimes
differs in a digit. Sums of integers do not: each amount becomes whole units. Where an engine has
integers of 128 bits, these are summed. Elsewhere they are split into three integers so small that
64 bits hold the sums of eight billion of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.engines import Calls, engine_of

UNITS_PER_USD: Final = 10**18
_PART: Final = 2**30
_NANO_USD: Final = Decimal("1e-9")


def sum_usd(
    calls: Calls, *names: str, by: Sequence[str] = (), others: Iterable[nw.Expr] = ()
) -> Calls:
    """Sum columns of dollars by these keys, beside other aggregates; `usd` reads the sums."""
    if engine_of(calls).has_wide_integers:
        units, parts = _round(calls, names), [_whole(name) for name in names]
    else:
        units, parts = _split(calls, names), [each(name) for name in names for each in _PARTS]
    aggregates = [*others, *(nw.col(part).sum() for part in parts)]
    return units.group_by(*by).agg(*aggregates) if by else units.select(*aggregates)


def add_usd(sums: Calls, *names: str, by: Sequence[str], others: Iterable[nw.Expr] = ()) -> Calls:
    """Add up the sums of columns that `sum_usd` returned, as `sum_usd` does."""
    known = sums.collect_schema().names()
    parts = [each(name) for name in names for each in (_whole, *_PARTS)]
    parts = [part for part in parts if part in known]
    return sums.group_by(*by).agg(*others, *(nw.col(part).sum() for part in parts))


def _round(calls: Calls, names: Sequence[str]) -> Calls:
    """Round columns of dollars to whole units, half up."""
    wholes = [_units(name).floor().alias(_whole(name)) for name in names]
    # The difference is exact, and so is the sum: units with a fraction are below 2 ** 53.
    rounded_up = [
        (nw.col(_whole(name)) + (_units(name) - nw.col(_whole(name)) >= 0.5).cast(nw.Float64))
        .cast(nw.Int128)
        .alias(_whole(name))
        for name in names
    ]
    return calls.with_columns(*wholes).with_columns(*rounded_up)


def _split(calls: Calls, names: Sequence[str]) -> Calls:
    """Split columns of dollars into integers, ready to be summed."""
    # Only powers of two divide and multiply here, which is exact for floats.
    calls = calls.with_columns(
        *[(_units(name) / float(_PART**2)).floor().alias(_high(name)) for name in names]
    )
    calls = calls.with_columns(
        *[
            ((_units(name) - nw.col(_high(name)) * float(_PART**2)) / float(_PART))
            .floor()
            .alias(_middle(name))
            for name in names
        ]
    )
    return calls.with_columns(
        *[nw.col(part(name)).cast(nw.Int64) for name in names for part in (_high, _middle)],
        *[(_rest(name) + 0.5).floor().cast(nw.Int64).alias(_low(name)) for name in names],
    )


def _units(name: str) -> nw.Expr:
    return nw.col(name) * float(UNITS_PER_USD)


def _rest(name: str) -> nw.Expr:
    large = nw.col(_high(name)) * float(_PART**2) + nw.col(_middle(name)) * float(_PART)
    return _units(name) - large


def usd(row: Mapping[str, Any], name: str) -> Decimal:
    """Return the dollars of such a sum, unrounded."""
    if _whole(name) in row:
        return Decimal(int(row[_whole(name)] or 0)) / UNITS_PER_USD
    high, middle, low = (int(row[part(name)] or 0) for part in _PARTS)
    return Decimal((high * _PART + middle) * _PART + low) / UNITS_PER_USD


def _whole(name: str) -> str:
    return f"{name}_units"


def _high(name: str) -> str:
    return f"{name}_high"


def _middle(name: str) -> str:
    return f"{name}_middle"


def _low(name: str) -> str:
    return f"{name}_low"


_PARTS: Final = (_high, _middle, _low)


def rounded(amount: Decimal | float) -> Decimal:
    """Round to 9 decimals, as the report writes dollars; zero is a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
