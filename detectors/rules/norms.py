"""The usual prompt lengths of calls with answers of about one length: the norms of context bloat.

They are of all calls of an audit, so they are counted in each part of it and added up.
"""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls, collect
from detectors.rules.columns import answer_tokens

MOST_BINS: Final = 64  # the bits of a count


def bin_of(calls: Calls) -> pl.Expr:
    """Return the bin of each call: its log, and the power of two below its answer's length.

    Calls of different logs are never compared. An empty answer is in the bin of one token.
    """
    tokens = pl.max_horizontal(answer_tokens(calls), 1)
    zeros = tokens.bitwise_leading_zeros().cast(pl.Int32)
    log = pl.col("log").cast(pl.Int64) if "log" in calls.collect_schema().names() else pl.lit(0)
    return log * MOST_BINS + (MOST_BINS - 1 - zeros)


def exponent_of(number: pl.Expr) -> pl.Expr:
    """Return the exponent of the power of two of a bin."""
    return number % MOST_BINS


def count_lengths(calls: Calls) -> Calls:
    """Count the calls of each bin by the length of their prompt."""
    binned = calls.select(bin_of(calls).alias("bin"), "prompt_tokens")
    return binned.group_by("bin", "prompt_tokens").agg(pl.len().cast(pl.Int64).alias("calls"))


def list_routes(calls: Calls, groups: pl.DataFrame, most: int) -> Calls:
    """Return the names of at most `most` routes of each bin; `groups` have their labels."""
    used = calls.select(bin_of(calls).alias("bin"), "group").unique()
    routes = groups.lazy().select("group", pl.col("route_label").cast(pl.String))
    labelled = used.join(routes, on="group").select("bin", "route_label").unique()
    return labelled.group_by("bin").head(max(most, 1)).select("bin", "route_label")


def find_norms(lengths: pl.DataFrame, routes: pl.DataFrame, thresholds: Thresholds) -> pl.DataFrame:
    """Return the median prompt and the number of calls of each bin with enough calls and routes."""
    calls, up_to = pl.col("calls"), pl.col("up_to")
    # The middle call, or the two in the middle of an even number of calls.
    lower, upper = (pl.col("bin_calls") + 1) // 2, pl.col("bin_calls") // 2 + 1
    prompts = pl.col("prompt_tokens")
    norms = (
        lengths.lazy()
        .sort("bin", "prompt_tokens")
        .with_columns(
            calls.cum_sum().over("bin").alias("up_to"), calls.sum().over("bin").alias("bin_calls")
        )
        .group_by("bin")
        .agg(
            prompts.filter(up_to >= lower).min().alias("lower"),
            prompts.filter(up_to >= upper).min().alias("upper"),
            pl.col("bin_calls").first(),
        )
        .with_columns(((pl.col("lower") + pl.col("upper")) / 2).alias("norm"))
    )
    named = routes.lazy().group_by("bin").agg(pl.len().alias("routes"))
    used = norms.join(named, on="bin").filter(
        pl.col("bin_calls") >= thresholds.d3_bin_min_calls,
        pl.col("routes") >= thresholds.d3_bin_min_routes,
    )
    return collect(used.select("bin", "norm", "bin_calls"))
