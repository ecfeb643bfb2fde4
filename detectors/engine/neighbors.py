"""Compares calls, in order of number, with the calls before and after them."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from detectors.engine.frames import Calls

_MIXED: Final = "mixed_columns"
_FACTOR: Final = 2_654_435_761  # a prime near the golden section of 32 bits


def split_at_pauses(calls: Calls, keys: Sequence[str], longest_us: float) -> Calls:
    """Split the calls of each key, in order of `number`, at pauses longer than this.

    Adds `pause_us`, null for the first call of a part, `next_us`, the pause after a call, null for
    the last call of a part, and `part`, which is unique with the keys.
    """
    at = pl.col("at_us")
    pause, after = at - _before(at, keys), _before(at, keys, -1) - at
    is_new = (pl.col("pause_us") > longest_us).fill_null(value=len(keys) == 1)
    part = pl.col("is_new").cast(pl.Int64).cum_sum()
    return (
        calls.with_columns(pause.alias("pause_us"), after.alias("next_us"))
        .with_columns(is_new.alias("is_new"))
        .with_columns(
            (part if len(keys) == 1 else part.over(keys)).alias("part"),
            pl.when(~pl.col("is_new")).then(pl.col("pause_us")).alias("pause_us"),
            pl.when(pl.col("next_us") <= longest_us).then(pl.col("next_us")).alias("next_us"),
        )
    )


def _before(value: pl.Expr, keys: Sequence[str], rows: int = 1) -> pl.Expr:
    if len(keys) > 1:
        return value.shift(rows).over(keys)
    # Calls are in order of group, so that the row before is the call before.
    (key,) = map(pl.col, keys)
    return pl.when(key == key.shift(rows)).then(value.shift(rows))


def filter_near(calls: Calls, same: Sequence[str], most: int) -> Calls:
    """Drop calls without another that is equal in these columns at most `most` rows away.

    A number that mixes the columns is compared; other calls rarely have the same number, and are
    kept.
    """
    # A number of 32 bits that is equal for rows that are equal in these columns.
    mix: pl.Expr = pl.lit(0, pl.UInt32)
    for name in same:
        # Integers of 32 bits wrap around.
        low = pl.col(name).cast(pl.UInt32, wrap_numerical=True)
        mix = (mix + low) * pl.lit(_FACTOR, pl.UInt32)
    mixed = calls.with_columns(mix.alias(_MIXED))
    number = pl.col(_MIXED)
    is_near = pl.any_horizontal(number == number.shift(each) for each in range(1, most + 1))
    paired = mixed.select(number).filter(is_near)
    return mixed.join(paired, on=_MIXED, how="semi").drop(_MIXED)
