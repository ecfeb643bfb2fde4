"""Dollars summed exactly, so that neither the order of the rows nor that of threads can show.

A parallel sum of floats differs in its last bits from run to run, and a rounded report then differs
now and then in a digit. Sums of integers do not: each amount is turned into whole units first.
"""

from decimal import Decimal
from typing import Final

import polars as pl

UNITS_PER_USD: Final = 10**18
_NANO_USD: Final = Decimal("1e-9")


def units(usd: str) -> pl.Expr:
    """A column of dollars in whole units. 128 bits hold any sum that the record contract allows."""
    return (pl.col(usd) * float(UNITS_PER_USD)).round().cast(pl.Int128)


def usd(units_sum: int) -> Decimal:
    """Dollars of a sum of units, unrounded."""
    return Decimal(units_sum) / UNITS_PER_USD


def rounded(amount: Decimal | float) -> Decimal:
    """Dollars as the report writes them: to 9 decimals, nothing being a plain 0."""
    return Decimal(amount).quantize(_NANO_USD) or Decimal(0)
