"""What hashes by level say of the text that two calls have in common.

A level is a number of the prompt's first characters. Equal hashes of a level mean that two prompts
begin with so much of the same text, and different ones of the next level that both calls have, that
they don't have more in common. A call that has `prefix_hashes` also says between which two levels
its prompt ends, so its tokens bound what a character is worth.
"""

from typing import Final

import polars as pl

from detectors.contract import LEVELS, Thresholds
from detectors.engine import Calls
from detectors.engine.levels import LEVEL_COLUMNS
from detectors.prices.calls import LEVELS_GIVEN
from detectors.rules.columns import has

_CHARACTERS_PER_TOKEN: Final = 4
_POWERS: Final = pl.Series([1 << level for level in range(len(LEVELS) + 1)], dtype=pl.Int64)
# What `measure` adds: the stated length of the shared text, and both ends of its range.
LENGTHS: Final = ("shared", "shared_low", "shared_high")


def find_levels(calls: Calls) -> dict[int, str]:
    """Return the columns of the levels that some call has, by level from 1."""
    return {level: name for level, name in enumerate(LEVEL_COLUMNS, 1) if has(calls, name)}


def first_tokens(thresholds: Thresholds) -> int:
    """Return the tokens that the first level covers."""
    return int(_characters(thresholds)[0]) // _CHARACTERS_PER_TOKEN


def of_pair(value: pl.Expr) -> pl.Expr:
    """Return a value of each call's `pair`, which is a row or null; 0 without one."""
    return value.gather(pl.col("pair")).fill_null(0)


def highest_equal(calls: Calls) -> pl.Expr:
    """Return the highest level at which each call and its `pair` are equal, 0 without one."""
    equal = [
        pl.when((pl.col(name) > 0) & (pl.col(name) == of_pair(pl.col(name))))
        .then(pl.lit(level, pl.Int64))
        .otherwise(pl.lit(0, pl.Int64))
        for level, name in find_levels(calls).items()
    ]
    return pl.max_horizontal(equal)


def compare(calls: Calls) -> Calls:
    """Add `next_level` and `with_levels` to calls with a `pair` and the `level` of it.

    `next_level` is the lowest level above `level` that both calls have, 0 without one. Calls that
    both have `prefix_hashes` are `with_levels`, and a call has `given` of them.
    """
    levels = find_levels(calls)
    has_level = [(pl.col(name) > 0).cast(pl.Int64) * (1 << at - 1) for at, name in levels.items()]
    given = pl.col(LEVELS_GIVEN) if has(calls, LEVELS_GIVEN) else pl.lit(0)
    paired = (
        calls.with_columns(pl.sum_horizontal(has_level).alias("had"), given.alias("given"))
        .with_columns(of_pair(pl.col("had", "given")).name.suffix("_by_pair"))
        .with_columns((pl.col("had") & pl.col("had_by_pair")).alias("common"))
    )
    above = pl.col("common") // pl.lit(_POWERS).gather(pl.col("level"))
    following = pl.col("level") + 1 + above.bitwise_trailing_zeros().cast(pl.Int64)
    return paired.with_columns(
        pl.when(above > 0).then(following).otherwise(pl.lit(0)).alias("next_level"),
        ((pl.col("given") > 0) & (pl.col("given_by_pair") > 0)).alias("with_levels"),
    ).drop("had", "had_by_pair", "common", "given_by_pair")


def measure(calls: Calls, thresholds: Thresholds) -> Calls:
    """Add `LENGTHS` in tokens to calls that `compare` has compared; 0 without a common level."""
    levels = _characters(thresholds)
    characters = pl.Series([0, *levels, levels[-1]], dtype=pl.Int64)

    def covered(level: pl.Expr) -> pl.Expr:
        return pl.lit(characters).gather(level)

    prompt, known = pl.col("prompt_tokens"), covered(pl.col("level"))
    differs, ends = covered(pl.col("next_level")), covered(pl.col("given"))
    has_next = pl.col("next_level") > 0
    tokens = known // _CHARACTERS_PER_TOKEN
    is_bounded = pl.col("with_levels") & (pl.col("given") < len(LEVELS))
    after = covered(pl.col("given") + 1).clip(lower_bound=1)
    low = pl.when(is_bounded).then(known * prompt // after).otherwise(tokens)
    # Rounded up.
    bound = (differs * prompt + ends - 1) // ends.clip(lower_bound=1)
    high = pl.when(is_bounded).then(bound).otherwise(differs // _CHARACTERS_PER_TOKEN)
    most = pl.min_horizontal("prompt_tokens", "pair_prompt")
    has_level = pl.col("level") > 0
    return (
        calls.with_columns(
            low.alias("shared_low"),
            pl.when(has_next).then(high).otherwise(prompt).alias("shared_high"),
        )
        .with_columns(
            pl.when(is_bounded)
            .then(tokens.clip("shared_low", "shared_high"))
            .otherwise(tokens)
            .alias("shared")
        )
        .with_columns(
            pl.when(has_level)
            .then(pl.min_horizontal(name, most))
            .otherwise(pl.lit(0))
            .cast(pl.Float64)
            .alias(name)
            for name in LENGTHS
        )
    )


def _characters(thresholds: Thresholds) -> tuple[int, ...]:
    characters: tuple[int, ...] = thresholds.d2_level_characters  # type: ignore[assignment]
    return characters
