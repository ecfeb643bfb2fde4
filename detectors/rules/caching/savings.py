"""Calls that could use the cache and do not, and what it would save them."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.rules.caching.pairs import (
    HASHES,
    add_read_of_pair,
    find_hashes,
    mark_pairs,
    pair,
)
from detectors.rules.detector import MARGIN, QUANTILE_MARGIN

_PREFIX: Final = ("group", "prefix")
_LEVEL: Final = ("group", "level")
_SECOND_US: Final = 1_000_000


def filter_cacheable(calls: Calls) -> Calls:
    """Keep the calls that could use the cache and do not."""
    return calls.filter(
        pl.col("cached_tokens") == 0,
        pl.col("cache_write_tokens") == 0,
        pl.col("has_cache_read") == 1,
        pl.col("prompt_tokens") >= pl.col("cache_minimum"),
    )


def find_unhashed(cacheable: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls without a hash of routes whose prompts are long."""
    unhashed = cacheable.filter(
        pl.col("needs_cache_opt_in") == 1, pl.col("has_route") == 1, pl.col("prefix") == 0
    )
    short_prompt = pl.col("prompt_tokens").quantile(thresholds.d2_unhashed_quantile, "linear")
    minimum = pl.col("minimum") * thresholds.d2_unhashed_minimum_multiple
    groups = (
        unhashed.group_by("group")
        .agg(
            pl.len().alias("calls"),
            short_prompt.alias("short_prompt"),
            pl.col("cache_minimum").max().alias("minimum"),
        )
        .filter(
            pl.col("calls") >= thresholds.d2_unhashed_min_calls,
            pl.col("short_prompt") >= minimum - QUANTILE_MARGIN,
        )
    )
    return unhashed.join(groups, on="group", how="semi")


def find_uncached(cacheable: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls of prefixes that caching makes cheaper, with what each would save.

    `prefix_tokens` would have been read from the cache and `written_tokens` written to it.
    """
    hashes = find_hashes(cacheable)
    hashed = (
        cacheable.filter(pl.col("prefix") > 0)
        .with_columns(
            pl.len().over(*_PREFIX).cast(pl.Int64).alias("calls"),
            (pl.col("at_us") // _SECOND_US).alias("second"),
        )
        .filter(pl.col("calls") >= thresholds.d2_min_hash_calls)
    )
    read = _count_read(pair(hashed, hashes, thresholds), hashes, thresholds)
    discount = pl.col("input_usd") - pl.col("cache_read_usd")
    premium = pl.col("cache_write_usd") - pl.col("input_usd")
    prefix = pl.col("prefix_tokens")
    rest = pl.col("prompt_tokens") - prefix
    return (
        _count_written(read, hashes, thresholds)
        .with_columns(
            (prefix * discount - pl.col("written_tokens") * premium).alias("saving_usd"),
            (prefix * discount - rest * premium).alias("low_usd"),
        )
        .with_columns(pl.col("saving_usd").sum().over(*_PREFIX).alias("total_usd"))
        .filter(pl.col("total_usd") > MARGIN)
    )


def _count_read(calls: Calls, hashes: Sequence[str], thresholds: Thresholds) -> Calls:
    """Add `prefix_tokens`: what the hash covers, or all of a growing conversation's last prompt."""
    prompt, pair_prompt = pl.col("prompt_tokens"), pl.col("pair_prompt")
    has_pair = pl.col("level") >= 0
    grows = has_pair & (prompt >= pair_prompt + pl.col("pair_answer"))
    shrinks = has_pair & (pair_prompt >= prompt + pl.col("completion_tokens"))
    covered = pl.lit(0.0)
    for index, name in enumerate(hashes):
        tokens = float(getattr(thresholds, HASHES[name]))
        covered = pl.when(pl.col("level") == index).then(pl.lit(tokens)).otherwise(covered)
    least = pl.col("pairs") * (thresholds.d2_conversation_share - QUANTILE_MARGIN)
    is_turn = (pl.col("grows") == 1) & (pl.col("growth") >= least)
    shared = pl.min_horizontal("covered", prompt.cast(pl.Float64), "pair_prompt")
    read = pl.when(is_turn).then(pair_prompt).otherwise(shared)
    is_long_enough = pl.col("prefix_tokens") >= pl.col("cache_minimum")
    return (
        calls.with_columns(
            covered.alias("covered"),
            has_pair.cast(pl.Int64).alias("pairs"),
            grows.cast(pl.Int64).alias("grows"),
            (grows.cast(pl.Int64) - shrinks.cast(pl.Int64)).alias("growth"),
        )
        .with_columns(pl.col("pairs", "growth").sum().over(*_LEVEL).cast(pl.Int64))
        .with_columns(read.alias("prefix_tokens"))
        .with_columns(
            pl.when(is_long_enough)
            .then(pl.col("prefix_tokens"))
            .otherwise(pl.lit(0.0))
            .alias("prefix_tokens")
        )
        .drop("covered", "pairs", "grows", "growth")
    )


def _count_written(calls: Calls, hashes: Sequence[str], thresholds: Thresholds) -> Calls:
    """Add `written_tokens`: what a call reads beyond its pair, or a prefix that no call reads."""
    marked = mark_pairs(add_read_of_pair(calls, hashes), hashes)
    beyond = (pl.col("prefix_tokens") - pl.col("pair_read")).clip(lower_bound=0.0)
    alone = pl.col("prompt_tokens").clip(upper_bound=thresholds.d2_prefix_tokens)
    is_alone = (pl.col("is_pair") == 0) & (alone >= pl.col("cache_minimum"))
    written = pl.when(is_alone).then(alone.cast(pl.Float64)).otherwise(pl.lit(0.0))
    has_pair = pl.col("level") >= 0
    return marked.with_columns(
        pl.when(has_pair).then(beyond).otherwise(written).alias("written_tokens")
    )
