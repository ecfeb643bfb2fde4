"""Calls that could use the cache and do not, and what it would save them."""

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
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
        nw.col("cached_tokens") == 0,
        nw.col("cache_write_tokens") == 0,
        nw.col("has_cache_read") == 1,
        nw.col("prompt_tokens") >= nw.col("cache_minimum"),
    )


def find_unhashed(cacheable: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls without a hash of routes whose prompts are long."""
    unhashed = cacheable.filter(
        nw.col("needs_cache_opt_in") == 1, nw.col("has_route") == 1, nw.col("prefix") == 0
    )
    short_prompt = nw.col("prompt_tokens").quantile(thresholds.d2_unhashed_quantile, "linear")
    minimum = nw.col("minimum") * thresholds.d2_unhashed_minimum_multiple
    groups = (
        unhashed.group_by("group")
        .agg(
            nw.len().alias("calls"),
            short_prompt.alias("short_prompt"),
            nw.col("cache_minimum").max().alias("minimum"),
        )
        .filter(
            nw.col("calls") >= thresholds.d2_unhashed_min_calls,
            nw.col("short_prompt") >= minimum - QUANTILE_MARGIN,
        )
    )
    return unhashed.join(groups, on="group", how="semi")


def find_uncached(cacheable: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls of prefixes that caching makes cheaper, with what each would save.

    `prefix_tokens` would have been read from the cache and `written_tokens` written to it.
    """
    hashes = find_hashes(cacheable)
    hashed = (
        cacheable.filter(nw.col("prefix") > 0)
        .with_columns(
            nw.len().over(*_PREFIX).cast(nw.Int64).alias("calls"),
            (nw.col("at_us") // _SECOND_US).alias("second"),
        )
        .filter(nw.col("calls") >= thresholds.d2_min_hash_calls)
    )
    read = _count_read(pair(hashed, hashes, thresholds), hashes, thresholds)
    discount = nw.col("input_usd") - nw.col("cache_read_usd")
    premium = nw.col("cache_write_usd") - nw.col("input_usd")
    prefix = nw.col("prefix_tokens")
    rest = nw.col("prompt_tokens") - prefix
    return (
        _count_written(read, hashes, thresholds)
        .with_columns(
            (prefix * discount - nw.col("written_tokens") * premium).alias("saving_usd"),
            (prefix * discount - rest * premium).alias("low_usd"),
        )
        .with_columns(nw.col("saving_usd").sum().over(*_PREFIX).alias("total_usd"))
        .filter(nw.col("total_usd") > MARGIN)
    )


def _count_read(calls: Calls, hashes: Sequence[str], thresholds: Thresholds) -> Calls:
    """Add `prefix_tokens`: what the hash covers, or all of a growing conversation's last prompt."""
    prompt, pair_prompt = nw.col("prompt_tokens"), nw.col("pair_prompt")
    has_pair = nw.col("level") >= 0
    grows = has_pair & (prompt >= pair_prompt + nw.col("pair_answer"))
    shrinks = has_pair & (pair_prompt >= prompt + nw.col("completion_tokens"))
    covered = nw.lit(0.0)
    for index, name in enumerate(hashes):
        tokens = float(getattr(thresholds, HASHES[name]))
        covered = nw.when(nw.col("level") == index).then(nw.lit(tokens)).otherwise(covered)
    least = nw.col("pairs") * (thresholds.d2_conversation_share - QUANTILE_MARGIN)
    is_turn = (nw.col("grows") == 1) & (nw.col("growth") >= least)
    shared = nw.min_horizontal("covered", prompt.cast(nw.Float64), "pair_prompt")
    read = nw.when(is_turn).then(pair_prompt).otherwise(shared)
    is_long_enough = nw.col("prefix_tokens") >= nw.col("cache_minimum")
    return (
        calls.with_columns(
            covered.alias("covered"),
            has_pair.cast(nw.Int64).alias("pairs"),
            grows.cast(nw.Int64).alias("grows"),
            (grows.cast(nw.Int64) - shrinks.cast(nw.Int64)).alias("growth"),
        )
        .with_columns(nw.col("pairs", "growth").sum().over(*_LEVEL).cast(nw.Int64))
        .with_columns(read.alias("prefix_tokens"))
        .with_columns(
            nw.when(is_long_enough)
            .then(nw.col("prefix_tokens"))
            .otherwise(nw.lit(0.0))
            .alias("prefix_tokens")
        )
        .drop("covered", "pairs", "grows", "growth")
    )


def _count_written(calls: Calls, hashes: Sequence[str], thresholds: Thresholds) -> Calls:
    """Add `written_tokens`: what a call reads beyond its pair, or a prefix that no call reads."""
    marked = mark_pairs(add_read_of_pair(calls, hashes), hashes)
    beyond = (nw.col("prefix_tokens") - nw.col("pair_read")).clip(lower_bound=0.0)
    alone = nw.col("prompt_tokens").clip(upper_bound=thresholds.d2_prefix_tokens)
    is_alone = (nw.col("is_pair") == 0) & (alone >= nw.col("cache_minimum"))
    written = nw.when(is_alone).then(alone.cast(nw.Float64)).otherwise(nw.lit(0.0))
    has_pair = nw.col("level") >= 0
    return marked.with_columns(
        nw.when(has_pair).then(beyond).otherwise(written).alias("written_tokens")
    )
