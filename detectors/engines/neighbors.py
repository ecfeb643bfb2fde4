"""Compares calls of a Polars frame, in order of number, with the calls before and after them."""

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines.engine import Calls

_MIXED: Final = "mixed_columns"
_FACTOR: Final = 2_654_435_761  # a prime near the golden section of 32 bits


def split_at_pauses(calls: Calls, keys: tuple[str, ...], longest_us: float) -> Calls:
    """Compare each call of a group, which has one key, with the row before."""
    key, at = pl.col(keys), pl.col("at_us")
    is_first = (key != key.shift(1)).fill_null(value=True)
    pause = pl.when(~pl.col("is_first")).then(at - at.shift(1))
    is_new = (pl.col("pause_us") > longest_us).fill_null(value=True)
    after = at.shift(-1) - at
    is_next = (key == key.shift(-1)) & (after <= longest_us)
    split: Calls = nw.from_native(
        calls.to_native()
        .with_columns(is_first.alias("is_first"), pl.when(is_next).then(after).alias("next_us"))
        .with_columns(pause.alias("pause_us"))
        .with_columns(is_new.alias("is_new"))
        .with_columns(
            pl.col("is_new").cum_sum().cast(pl.Int64).alias("part"),
            pl.when(~pl.col("is_new")).then(pl.col("pause_us")).alias("pause_us"),
        )
        .drop("is_first")
    )
    return split


def filter_near(calls: Calls, same: Sequence[str], most: int) -> Calls:
    """Compare a number that mixes the columns with those of the rows before.

    Other calls rarely have the same number; these are kept.
    """
    mixed = calls.to_native().with_columns(_mix(same))
    number = pl.col(_MIXED)
    is_near = pl.any_horizontal(number == number.shift(each) for each in range(1, most + 1))
    paired = mixed.select(number).filter(is_near)
    kept: Calls = nw.from_native(mixed.join(paired, on=_MIXED, how="semi").drop(_MIXED))
    return kept


def _mix(names: Sequence[str]) -> pl.Expr:
    """Return a number of 32 bits that is equal for rows that are equal in these columns."""
    mixed: pl.Expr = pl.lit(0, pl.UInt32)
    for name in names:
        # Integers of 32 bits wrap around.
        low = pl.col(name).cast(pl.UInt32, wrap_numerical=True)
        mixed = (mixed + low) * pl.lit(_FACTOR, pl.UInt32)
    return mixed.alias(_MIXED)
