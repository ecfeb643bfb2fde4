"""Exact sums of dollars, whatever the order of rows or threads.

A parallel sum of floats differs in its last bits between audits, so a rounded figure sometimes
differs in a digit. Sums of integers do not: each amount becomes whole units, split into three
integers so small that 64 bits hold the sums of eight billion of them, because not every engine has
larger integers.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.engines import Calls

UNITS_PER_USD: Final = 10**18
_PART: Final = 2**30
_NANO_USD: Final = Decimal("1e-9")


def split(calls: Calls, *names: str) -> Calls:
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


def sums(*names: str) -> Iterable[nw.Expr]:
    """Yield the sums of columns that were split."""
    for name in names:
        yield from (nw.col(part(name)).sum() for part in (_high, _middle, _low))


def usd(row: Mapping[str, Any], name: str) -> Decimal:
    """Return the dollars of such a sum, unrounded."""
    high, middle, low = (int(row[part(name)] or 0) for part in (_high, _middle, _low))
    return Decimal((high * _PART + middle) * _PART + low) / UNITS_PER_USD


def _high(name: str) -> str:
    return f"{name}_high"


def _middle(name: str) -> str:
    return f"{name}_middle"


def _low(name: str) -> str:
    return f"{name}_low"


def rounded(amount: Decimal | float) -> Decimal:
    """Round to 9 decimals, as the report writes dollars; zero is a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
