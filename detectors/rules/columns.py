"""Columns that rules derive from the calls, some of which exist only where some call has them."""

from typing import Final

import polars as pl

from detectors.engine import Calls
from detectors.rules.detector import MARGIN

_SHIFT: Final = 16
_STEP: Final = 1 << _SHIFT


def has(calls: Calls, name: str) -> bool:
    return name in calls.collect_schema().names()


def count_of(calls: Calls, name: str) -> pl.Expr:
    """Return an optional count, 0 where no call has it."""
    return pl.col(name) if has(calls, name) else pl.lit(0, pl.Int64)


def answer_tokens(calls: Calls) -> pl.Expr:
    """Return the tokens of the visible answer: completion tokens without reasoning."""
    completion = pl.col("completion_tokens")
    if not has(calls, "reasoning_tokens"):
        return completion
    return (completion - pl.col("reasoning_tokens")).clip(lower_bound=0)


def log2(tokens: pl.Expr) -> pl.Expr:
    """Return the exponent of the largest power of two in the count; 0 for an empty answer.

    A floating-point logarithm is off by a bit near large powers of two, so only the leading 16 bits
    are used, where the margin is far smaller than the distance to the next integer.
    """
    leading, exponent = tokens, pl.lit(0, pl.Int32)
    for _ in range(2):
        is_long = leading >= _STEP
        exponent = exponent + is_long.cast(pl.Int32) * _SHIFT
        leading = pl.when(is_long).then(leading // _STEP).otherwise(leading)
    fraction = (leading.clip(lower_bound=1).log(2) + MARGIN).floor()
    return exponent + fraction.cast(pl.Int32)
