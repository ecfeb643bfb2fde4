"""Calls that use the cache: writes that expire before they are read, and writes nobody reads.

The calls of a prefix are split into hour runs, in which no pause is longer than the longest
lifetime of a cache.
"""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.rules.columns import count_of
from detectors.rules.detector import MARGIN, QUANTILE_MARGIN

_PREFIX: Final = ("group", "prefix")
_RUN: Final = (*_PREFIX, "hour_run")
_SECOND_US: Final = 1_000_000


def split_runs(calls: Calls, thresholds: Thresholds) -> Calls:
    """Number the hour runs of each prefix, and say what the one-hour cache would save on each call.

    `expired_us` is the saving of all calls of the hour run.
    """
    before = [
        pl.col(name).shift(1).over(*_PREFIX, order_by="number").alias(f"{name}_before")
        for name in ("at_us", "stored", "completion_tokens")
    ]
    is_new = pl.col("pause_us") > thresholds.d2_hour_cache_seconds * _SECOND_US
    hour_run = pl.col("is_new").cum_sum().over(*_PREFIX, order_by="number")
    by_hour = (pl.col("cache_write_1h_usd") - pl.col("cache_write_usd")) * pl.col("expiring_tokens")
    read_instead = pl.col("cache_write_usd") - pl.col("cache_read_usd")
    saving = pl.col("rewritten_tokens") * read_instead - by_hour
    # The calls that use the cache, of the prefixes with writes that may lose money.
    written, read = pl.col("cache_write_tokens"), pl.col("cached_tokens")
    hour_written = pl.min_horizontal(count_of(calls, "cache_write_1h_tokens"), written)
    users = calls.filter(pl.col("has_cache_read") == 1, (written > 0) | (read > 0))
    is_dear = pl.col("cache_write_usd") > pl.col("input_usd")
    writers = users.filter(written > 0, is_dear | (pl.col("has_cache_write_1h") == 1))
    # The tokens that the call before had stored, and this one stores again. Without a hash, the
    # stored text is the same only if it has grown by about the last answer.
    pause, stored, earlier = pl.col("pause_us"), pl.col("stored"), pl.col("stored_before")
    most = earlier + pl.col("completion_tokens_before") + thresholds.d2_grown_tokens
    is_same = (pl.col("prefix") > 0) | ((stored >= earlier) & (stored <= most))
    has_expired = (pause > thresholds.d2_cache_seconds * _SECOND_US) & (
        pause <= thresholds.d2_hour_cache_seconds * _SECOND_US
    )
    rewrites = has_expired & is_same & (pl.col("has_cache_write_1h") == 1)
    tokens = pl.min_horizontal(pl.col("short_written").cast(pl.Float64), earlier.cast(pl.Float64))
    return (
        users.join(writers.select(*_PREFIX).unique(), on=list(_PREFIX), how="semi")
        .with_columns(hour_written.alias("hour_written"), (written + read).alias("stored"))
        .with_columns((written - pl.col("hour_written")).alias("short_written"))
        .with_columns(*before)
        .with_columns((pl.col("at_us") - pl.col("at_us_before")).alias("pause_us"))
        .with_columns(is_new.fill_null(value=False).cast(pl.Int64).alias("is_new"))
        .with_columns(hour_run.cast(pl.Int64).alias("hour_run"))
        .with_columns(
            pl.when(rewrites.fill_null(value=False))
            .then(tokens)
            .otherwise(pl.lit(0.0))
            .alias("rewritten_tokens")
        )
        .with_columns(
            (pl.col("short_written") - pl.col("rewritten_tokens")).alias("expiring_tokens")
        )
        .with_columns(
            pl.when(pl.col("has_cache_write_1h") == 1)
            .then(saving)
            .otherwise(pl.lit(0.0))
            .alias("lifetime_usd")
        )
        .with_columns(pl.col("lifetime_usd").sum().over(*_RUN).alias("hour_run_usd"))
    )


def find_expired(runs: Calls) -> Calls:
    """Return the calls of hour runs that the one-hour cache makes cheaper."""
    return runs.filter(pl.col("hour_run_usd") > MARGIN)


def find_unread(runs: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls of the other hour runs of prefixes whose writes cost more than reads save.

    `puts_first` is 1 in groups that write nearly all of each prompt although calls follow closely.
    """
    price, written = pl.col("input_usd"), pl.col("short_written")
    loss = (
        written * (pl.col("cache_write_usd") - price)
        + pl.col("hour_written") * (pl.col("cache_write_1h_usd") - price)
        - pl.col("cached_tokens") * (price - pl.col("cache_read_usd"))
    )
    is_close = (pl.col("pause_us") < thresholds.d2_cache_seconds * _SECOND_US).fill_null(
        value=False
    )
    whole_share = thresholds.d2_whole_write_share - QUANTILE_MARGIN
    is_whole = pl.col("cache_write_tokens") >= pl.col("prompt_tokens") * whole_share
    least = pl.col("close") * (thresholds.d2_whole_write_calls_share - QUANTILE_MARGIN)
    writes_whole = (pl.col("close") > 0) & (pl.col("whole") >= least)
    return (
        runs.filter(pl.col("hour_run_usd") <= MARGIN)
        .with_columns(loss.alias("saving_usd"))
        .with_columns(pl.col("saving_usd").sum().over(*_PREFIX).alias("total_usd"))
        .filter(pl.col("total_usd") > MARGIN)
        .with_columns(
            is_close.cast(pl.Int64).alias("close"),
            (is_close & is_whole).cast(pl.Int64).alias("whole"),
        )
        .with_columns(pl.col("close", "whole").sum().over("group").cast(pl.Int64))
        .with_columns(writes_whole.cast(pl.Int64).alias("writes_whole"))
    )
