"""Calls that would have been cheaper with caching, or without it, and by how much."""

from collections.abc import Sequence

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import MARGIN, QUANTILE_MARGIN

_HASH = ("group", "prefix")
_SECOND_US = 1_000_000


def filter_cacheable(calls: Calls) -> Calls:
    """Keep the calls that could use the cache and do not."""
    return calls.filter(
        nw.col("cached_tokens") == 0,
        nw.col("cache_write_tokens") == 0,
        nw.col("has_cache_read") == 1,
        nw.col("prompt_tokens") >= nw.col("cache_minimum"),
    )


def find_uncached(cacheable: Calls, thresholds: Thresholds) -> Calls:
    hashed = (
        cacheable.filter(
            nw.col("prefix") > 0, nw.col("cache_minimum") <= thresholds.d2_prefix_tokens
        )
        .with_columns(nw.len().over(*_HASH).cast(nw.Int64).alias("calls"))
        .filter(nw.col("calls") >= thresholds.d2_min_hash_calls)
    )
    prefix_tokens = nw.col("prompt_tokens").clip(upper_bound=thresholds.d2_prefix_tokens)
    return _filter_saving(hashed, _HASH, prefix_tokens, thresholds)


def find_unhashed(cacheable: Calls, thresholds: Thresholds) -> Calls:
    unhashed = cacheable.filter(
        nw.col("needs_cache_opt_in") == 1,
        nw.col("has_route") == 1,
        (nw.col("prefix") == 0) | (nw.col("cache_minimum") > thresholds.d2_prefix_tokens),
    )
    short_prompt = nw.col("prompt_tokens").quantile(thresholds.d2_unhashed_quantile, "linear")
    shared = nw.col("short_prompt") * thresholds.d2_unhashed_prompt_share
    groups = (
        unhashed.group_by("group")
        .agg(nw.len().alias("calls"), short_prompt.alias("short_prompt"))
        .filter(nw.col("calls") >= thresholds.d2_unhashed_min_calls)
        .select("group", shared.alias("shared_tokens"))
    )
    alike = unhashed.join(groups, on="group", how="inner").filter(
        nw.col("shared_tokens") >= nw.col("cache_minimum") - QUANTILE_MARGIN
    )
    prefix_tokens = nw.min_horizontal("shared_tokens", nw.col("prompt_tokens").cast(nw.Float64))
    return _filter_saving(alike, ("group",), prefix_tokens, thresholds)


def _filter_saving(
    calls: Calls, keys: Sequence[str], prefix_tokens: nw.Expr, thresholds: Thresholds
) -> Calls:
    """Return the calls and what caching would have saved on each, if the total is positive.

    A call reads what an earlier second wrote, never its own second.
    """
    before = nw.col("second").shift(1).over(*keys, order_by="number")
    pause = nw.when(nw.col("before") < nw.col("second")).then(nw.col("second") - nw.col("before"))
    # Only the first call of a second has an earlier second before it; the others share its pause.
    shared_pause = nw.col("pause").max().over(*keys, "second")
    saving = (
        nw.when(nw.col("pause") <= thresholds.d2_cache_seconds)
        .then(prefix_tokens * nw.col("read_discount_usd"))
        .otherwise(prefix_tokens * nw.col("write_premium_usd") * -1.0)
    )
    return (
        calls.with_columns((nw.col("at_us") // _SECOND_US).alias("second"))
        .with_columns(before.alias("before"))
        .with_columns(pause.alias("pause"))
        .with_columns(shared_pause.alias("pause"))
        .with_columns(saving.alias("saving_usd"))
        .with_columns(nw.col("saving_usd").sum().over(*keys).alias("total_usd"))
        .filter(nw.col("total_usd") > MARGIN)
    )


def find_unread(calls: Calls) -> Calls:
    written, read = nw.col("cache_write_tokens"), nw.col("cached_tokens")
    loss = written * nw.col("write_premium_usd") - read * nw.col("read_discount_usd")
    return (
        calls.filter((written > 0) | (read > 0))
        .with_columns(loss.alias("saving_usd"))
        .with_columns(
            written.max().over("group").alias("most_written"),
            nw.col("saving_usd").sum().over("group").alias("total_usd"),
        )
        .filter(nw.col("most_written") > 0, nw.col("total_usd") > MARGIN)
    )
