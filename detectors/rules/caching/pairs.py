"""Pairs each uncached call with the earlier call whose cache it could have read.

The pair is the last call of the nearest earlier second, at most the cache's lifetime back, that
began with the same text, by the longest hash that both have: the pair's level. Calls of one second
are parallel, so none reads what another of them writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.rules.columns import has

# The hashes, longest first, and the threshold with the tokens that each covers.
HASHES: Final = {
    "prefix_64k": "d2_prefix_64k_tokens",
    "prefix_16k": "d2_prefix_16k_tokens",
    "prefix": "d2_prefix_tokens",
}
_PAIR: Final = {
    "at_us": "pair_us",
    "prompt_tokens": "pair_prompt",
    "completion_tokens": "pair_answer",
}


def find_hashes(calls: Calls) -> list[str]:
    """Return the hashes that some call has, longest first; a level is a position in this list."""
    return [name for name in HASHES if has(calls, name)]


def pair(calls: Calls, hashes: Sequence[str], thresholds: Thresholds) -> Calls:
    """Add `level`, -1 without a pair, and the pair's time and counts, 0 without a pair."""
    for name in hashes:
        before = pl.col("second").shift(1).over("group", name, order_by="number")
        pause = pl.col("second") - pl.col("before")
        follows = (pl.col(name) > 0) & (pause > 0) & (pause <= thresholds.d2_cache_seconds)
        calls = (
            calls.with_columns(before.alias("before"))
            .with_columns(follows.fill_null(value=False).cast(pl.Int64).alias(f"follows_{name}"))
            .drop("before")
        )
    calls = _carry(calls, _PAIR, hashes)
    level = pl.lit(-1)
    for index, name in reversed([*enumerate(hashes)]):
        has_pair = (pl.col(f"pair_us_{name}") >= 0).fill_null(value=False)
        level = pl.when(has_pair).then(pl.lit(index)).otherwise(level)
    leveled = calls.with_columns(level.cast(pl.Int8).alias("level"))
    return _choose(leveled, _PAIR.values(), hashes)


def add_read_of_pair(calls: Calls, hashes: Sequence[str]) -> Calls:
    """Add `pair_read`, the tokens that the pair has read, 0 without a pair."""
    return _choose(_carry(calls, {"prefix_tokens": "pair_read"}, hashes), ["pair_read"], hashes)


def mark_pairs(calls: Calls, hashes: Sequence[str]) -> Calls:
    """Add `is_pair`, whether the call is the pair of another."""
    names = [f"uses_{name}" for name in hashes]
    uses = [(pl.col("level") == index).cast(pl.Int64) for index in range(len(hashes))]
    shared = [
        pl.col(f"uses_{name}").max().over("group", name, "second") * pl.col(f"follows_{name}")
        for name in hashes
    ]
    after = [
        pl.col(f"uses_{name}").shift(-1).over("group", name, order_by="number") for name in hashes
    ]
    return (
        calls.with_columns(*[each.alias(name) for name, each in zip(names, uses, strict=True)])
        .with_columns(*[each.alias(name) for name, each in zip(names, shared, strict=True)])
        .with_columns(
            *[each.fill_null(0).alias(name) for name, each in zip(names, after, strict=True)]
        )
        .with_columns(pl.max_horizontal(names).alias("is_pair"))
        .drop(*names)
    )


def _carry(calls: Calls, columns: Mapping[str, str], hashes: Sequence[str]) -> Calls:
    """Add columns of the pair by each hash to all calls of a second, null without a pair."""
    carried = [(old, f"{new}_{name}", name) for old, new in columns.items() for name in hashes]
    before = [
        pl.col(old).shift(1).over("group", name, order_by="number").alias(new)
        for old, new, name in carried
    ]
    # Only the first call of a second comes directly after its pair.
    first = [
        pl.when(pl.col(f"follows_{name}") == 1).then(pl.col(new)).alias(new)
        for _, new, name in carried
    ]
    shared = [
        pl.col(new).max().over("group", name, "second").alias(new) for _, new, name in carried
    ]
    return calls.with_columns(*before).with_columns(*first).with_columns(*shared)


def _choose(calls: Calls, columns: Iterable[str], hashes: Sequence[str]) -> Calls:
    """Keep of each column the value of the call's level."""
    chosen, names = [], [*columns]
    for column in names:
        value = pl.lit(0.0)
        for index, name in enumerate(hashes):
            own = pl.col(f"{column}_{name}").cast(pl.Float64)
            value = pl.when(pl.col("level") == index).then(own).otherwise(value)
        chosen.append(value.alias(column))
    by_hash = [f"{column}_{name}" for column in names for name in hashes]
    return calls.with_columns(*chosen).drop(*by_hash)
