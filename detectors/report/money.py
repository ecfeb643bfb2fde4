"""Dollars summed exactly, so that neither the order of the rows nor that of threads can show.

A parallel sum of floats differs in its last bits from run to run, and a rounded report then differs
now and then in a digit. Sums of integers do not: each amount is turned into whole units first, and
these into three integers small enough that 64 bits hold the sums of eight billion of them, since
not every engine has larger ones.
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
    """The calls with columns of dollars taken apart, ready to be summed."""
    # Divided and multiplied by powers of two alone, which floats do without rounding.
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
    """The sums of columns that were split."""
    for name in names:
        yield from (nw.col(part(name)).sum() for part in (_high, _middle, _low))


def usd(row: Mapping[str, Any], name: str) -> Decimal:
    """Dollars of such a sum, unrounded."""
    high, middle, low = (int(row[part(name)] or 0) for part in (_high, _middle, _low))
    return Decimal((high * _PART + middle) * _PART + low) / UNITS_PER_USD


def _high(name: str) -> str:
    return f"{name}_high"


def _middle(name: str) -> str:
    return f"{name}_middle"


def _low(name: str) -> str:
    return f"{name}_low"


def rounded(amount: Decimal | float) -> Decimal:
    """Dollars as the report writes them: to 9 decimals, nothing being a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
