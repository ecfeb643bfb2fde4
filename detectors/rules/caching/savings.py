"""Calls that could use the cache and do not, and what it would save them."""

from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls, join_numbered
from detectors.rules.caching.levels import compare, find_levels, first_tokens, measure, of_pair
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
_NONE: Final = 2**32 - 1  # no row
_LARGEST: Final = 2**64 - 1
_SAMPLED: Final = 10_000
_SEVERAL: Final = 4  # calls of each hash on average, else finding pairs takes as long
# Odd numbers near the golden section of 64 bits, and one unlike it.
_FACTOR: Final = pl.lit(0x9E3779B97F4A7C15, pl.UInt64)
_GROUP_FACTOR: Final = pl.lit(0xC2B2AE3D27D4EB4F, pl.UInt64)
_FOUND: Final = pl.Struct({"pair": pl.UInt32, "level": pl.Int64, "is_pair": pl.Boolean})


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
    return join_numbered(unhashed, groups.select("group"), "group")


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


def pair(calls: Calls, thresholds: Thresholds) -> Calls:
    """Add `pair`, the row of the pair or null, its `level` or 0, and whether a call `is_pair`.

    The pair's time and counts are added too, 0 without a pair. The calls are in order of number.
    """
    levels = find_levels(calls)
    find = partial(_find, levels=levels, seconds=thresholds.d2_cache_seconds)
    found = pl.struct("group", "second", *levels.values()).map_batches(find, return_dtype=_FOUND)
    columns = {
        "pair_us": pl.col("at_us"),
        "pair_prompt": pl.col("prompt_tokens"),
        "pair_answer": answer_tokens(calls),
    }
    return (
        calls.with_columns(found.alias("found"))
        .unnest("found")
        .with_columns(of_pair(value).alias(name) for name, value in columns.items())
    )


def _find(calls: pl.Series, levels: Mapping[int, str], seconds: float) -> pl.Series:
    frame = calls.struct.unnest()
    pairs = pl.repeat(None, frame.height, dtype=pl.UInt32, eager=True)
    level_of = pl.zeros(frame.height, dtype=pl.Int64, eager=True)
    names = list(levels.values())
    order = None
    # A level at a time, which takes less memory, and from the lowest, so that the highest counts.
    for (level, name), following in zip_longest(levels.items(), names[1:]):
        order = _sort_by_hash(frame, name) if order is None else order
        if following is not None and _are_as_equal(frame, order, following):
            continue  # the next level has the same pairs
        found = _find_pairs(frame, order, name, seconds)
        order = None
        pairs = pairs.scatter(found["row"], found["pair"])
        level_of = level_of.scatter(found["row"], level)
    used = pl.repeat(False, frame.height, dtype=pl.Boolean, eager=True)
    used = used.scatter(pairs.drop_nulls(), True)
    columns = [pairs.alias("pair"), level_of.alias("level"), used.alias("is_pair")]
    return pl.DataFrame(columns).to_struct(calls.name)


def _sort_by_hash(calls: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the rows of calls with a hash, and whether each follows one of its group and hash.

    Calls are sorted by a number whose lower bits are the row, and whose upper ones, at least 40,
    are equal where group and hash are: ten times as fast as sorting rows by hash.
    """
    mask = (1 << max(calls.height - 1, 1).bit_length()) - 1
    own = pl.col(name).cast(pl.UInt64) * _FACTOR + pl.col("group").cast(pl.UInt64) * _GROUP_FACTOR
    packed = (own & pl.lit(_LARGEST - mask, pl.UInt64)) | pl.int_range(pl.len(), dtype=pl.UInt64)
    hashed = calls.lazy().select(packed.alias("key"), pl.col(name)).filter(pl.col(name) > 0)
    key = pl.col("key")
    is_same = ((key ^ key.shift(1)) <= mask).fill_null(value=False)
    row = (key & mask).cast(pl.UInt32)
    keys = hashed.select("key").collect()["key"].sort().to_frame()
    return keys.select(row.alias("row"), is_same.alias("is_same"))


def _are_as_equal(calls: pl.DataFrame, order: pl.DataFrame, name: str) -> bool:
    """Check whether the sorted calls that have equal hashes have at another level, and no others.

    Levels of one system prompt do, and looking takes a fifth of the time that finding pairs does.
    """
    if (calls[name] > 0).sum() != order.height:
        return False
    for some in (order.head(_SAMPLED), order):
        hashes = calls[name].gather(some["row"])
        if not ((hashes == hashes.shift(1)) | ~some["is_same"]).all() or (hashes == 0).any():
            return False
    is_first = ~order["is_same"]
    if is_first.sum() * _SEVERAL > order.height:
        return False
    groups = calls["group"].gather(order["row"].filter(is_first))
    return pl.DataFrame([groups, hashes.filter(is_first)]).is_unique().all()


def _find_pairs(
    calls: pl.DataFrame, order: pl.DataFrame, name: str, seconds: float
) -> pl.DataFrame:
    """Return the sorted calls with a pair, by row, and the row of the pair."""
    row, second, is_same = map(pl.col, ("row", "second", "is_same"))
    # Of a million calls, two with other hashes share the upper bits in one of thirty audits.
    own = pl.lit(calls[name]).gather(row)
    # Of the calls of a second, only the first comes directly after the pair of all of them.
    is_first = ~is_same | (second != second.shift(1))
    pair = pl.when(is_same).then(row.shift(1)).otherwise(pl.lit(_NONE, pl.UInt32))
    columns = {"pair": pair, "pair_second": second.shift(1, fill_value=0)}
    return (
        order.lazy()
        # Calls whose hash no other has, as most have at high levels, have no pair.
        .filter(is_same | is_same.shift(-1))
        .with_columns(
            (is_same & (own == own.shift(1))).fill_null(value=False).alias("is_same"),
            pl.lit(calls["second"]).gather(row).alias("second"),
        )
        .with_columns(
            pl.when(is_first.fill_null(value=True)).then(value).forward_fill().alias(column)
            for column, value in columns.items()
        )
        .filter(pl.col("pair") != _NONE, second - pl.col("pair_second") <= seconds)
        .select("row", "pair")
        .collect()
    )
