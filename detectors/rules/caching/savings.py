"""Calls that could use the cache and do not, and what it would save them."""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.rules.caching.levels import compare, first_tokens, measure, of_pair
from detectors.rules.caching.pairs import pair
from detectors.rules.columns import answer_tokens
from detectors.rules.detector import MARGIN, QUANTILE_MARGIN

_PREFIX: Final = ("group", "prefix")
_LEVEL: Final = ("group", "level")
# What a call would have read, as stated and at both ends of the range, by the length it is from.
_READ: Final = {
    "prefix_tokens": "shared",
    "prefix_low": "shared_low",
    "prefix_high": "shared_high",
}
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
    hashed = (
        cacheable.filter(pl.col("prefix") > 0)
        .with_columns(
            pl.len().over(*_PREFIX).cast(pl.Int64).alias("calls"),
            (pl.col("at_us") // _SECOND_US).alias("second"),
        )
        .filter(pl.col("calls") >= thresholds.d2_min_hash_calls)
    )
    compared = measure(compare(pair(hashed, thresholds)), thresholds)
    # A call reads the shared text, or all of a conversation's last prompt.
    read = _find_turns(compared, thresholds).with_columns(
        pl.when(pl.col("is_turn"))
        .then(pl.col("pair_prompt").cast(pl.Float64))
        .otherwise(pl.col(shared))
        .alias(name)
        for name, shared in _READ.items()
    )
    read = read.with_columns(
        pl.when(pl.col(name) >= pl.col("cache_minimum"))
        .then(pl.col(name))
        .otherwise(pl.lit(0.0))
        .alias(name)
        for name in _READ
    )
    discount = pl.col("input_usd") - pl.col("cache_read_usd")
    premium = pl.col("cache_write_usd") - pl.col("input_usd")
    rest = pl.col("prompt_tokens") - pl.col("prefix_low")
    written = {name: _count_written(name, thresholds) for name in ("prefix_tokens", "prefix_high")}
    return (
        read.with_columns(written["prefix_tokens"].alias("written_tokens"))
        .with_columns(
            (pl.col("prefix_tokens") * discount - pl.col("written_tokens") * premium).alias(
                "saving_usd"
            ),
            (pl.col("prefix_low") * discount - rest * premium).alias("low_usd"),
            (pl.col("prefix_high") * discount - written["prefix_high"] * premium).alias("high_usd"),
        )
        .with_columns(pl.col("saving_usd").sum().over(*_PREFIX).alias("total_usd"))
        .filter(pl.col("total_usd") > MARGIN)
    )


def _find_turns(calls: Calls, thresholds: Thresholds) -> Calls:
    """Add `is_turn`: the call goes on with the conversation that its pair is from.

    Calls are turns where most calls of the group and level grow; where few have a pair, where most
    of the group do. A call that is known to differ from its pair at a further level is none.
    """
    prompt, pair_prompt = pl.col("prompt_tokens"), pl.col("pair_prompt")
    has_pair = pl.col("level") > 0
    grows = has_pair & (prompt >= pair_prompt + pl.col("pair_answer"))
    shrinks = has_pair & (pair_prompt >= prompt + answer_tokens(calls))
    is_few = pl.col("pairs") < thresholds.d2_conversation_min_calls
    share = thresholds.d2_conversation_share - QUANTILE_MARGIN
    grown, pairs = (
        pl.when(is_few).then(pl.col(f"all_{name}")).otherwise(pl.col(name))
        for name in ("growth", "pairs")
    )
    differs = pl.col("with_levels") & (pl.col("next_level") > 0)
    return (
        calls.with_columns(
            has_pair.cast(pl.Int64).alias("pairs"),
            grows.alias("grows"),
            (grows.cast(pl.Int64) - shrinks.cast(pl.Int64)).alias("growth"),
        )
        .with_columns(
            pl.col("pairs", "growth").sum().over("group").name.prefix("all_"),
            pl.col("pairs", "growth").sum().over(*_LEVEL),
        )
        .with_columns((pl.col("grows") & ~differs & (grown >= pairs * share)).alias("is_turn"))
        .drop("pairs", "growth", "all_pairs", "all_growth", "grows")
    )


def _count_written(read: str, thresholds: Thresholds) -> pl.Expr:
    """Return what a call reads beyond its pair, or a prefix that no call reads."""
    beyond = (pl.col(read) - of_pair(pl.col(read))).clip(lower_bound=0.0)
    alone = pl.col("prompt_tokens").clip(upper_bound=first_tokens(thresholds))
    is_alone = ~pl.col("is_pair") & (alone >= pl.col("cache_minimum"))
    written = pl.when(is_alone).then(alone.cast(pl.Float64)).otherwise(pl.lit(0.0))
    return pl.when(pl.col("level") > 0).then(beyond).otherwise(written)
