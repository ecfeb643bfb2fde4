"""Splits the calls of a route into sessions, and finds those that look like a loop."""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.engine.neighbors import split_at_pauses
from detectors.rules.columns import answer_tokens, has
from detectors.rules.detector import QUANTILE_MARGIN

_SECOND_US: Final = 1_000_000
_MILLISECOND_US: Final = 1_000


def split_sessions(calls: Calls, thresholds: Thresholds) -> tuple[Calls, tuple[str, ...]]:
    """Number each group's sessions; return the columns that identify one too.

    Calls with a session ID are split by it. `pause_us` is null for a session's first call, and
    `next_us`, the pause after a call, for its last.
    """
    keys = ("group", "session") if has(calls, "session") else ("group",)
    longest_us = thresholds.d6_session_gap_seconds * _SECOND_US
    if len(keys) > 1:
        # Keep the groups with enough short answers for a session, before any window is computed.
        least = thresholds.d6_min_calls * (thresholds.d6_min_short_share - QUANTILE_MARGIN)
        groups = (
            calls.select("group", _is_short(calls, thresholds).alias("short"))
            .group_by("group")
            .agg(pl.len().alias("calls"), pl.col("short").sum())
            .filter(pl.col("calls") >= thresholds.d6_min_calls, pl.col("short") >= least)
        )
        calls = calls.join(groups, on="group", how="semi")
        return split_at_pauses(calls, keys, longest_us), (*keys, "part")
    return split_at_pauses(calls, keys, longest_us), ("part",)


def filter_loops(sessions: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Keep the sessions that look like a loop, and number their calls from 0 as `position`."""
    pause, at = pl.col("pause_us"), pl.col("at_us")
    overlaps = pause < thresholds.d6_overlap_gap_seconds * _SECOND_US
    longest_pause = thresholds.d6_max_median_gap_seconds * _SECOND_US
    # With times in whole seconds, overlaps are pauses of zero.
    most_overlaps = (pl.col("calls") - 1) * (
        pl.when(pl.col("fraction") == 0)
        .then(thresholds.d6_max_zero_gap_share + QUANTILE_MARGIN)
        .otherwise(thresholds.d6_max_overlap_share + QUANTILE_MARGIN)
    )
    least = pl.col("calls") * (thresholds.d6_min_short_share - QUANTILE_MARGIN)
    found = (
        sessions.select(*session, _is_short(sessions, thresholds).alias("short"))
        .group_by(*session)
        .agg(pl.len().alias("calls"), pl.col("short").sum())
        .with_columns(pl.col("calls").cast(pl.Int64))
        .filter(pl.col("calls") >= thresholds.d6_min_calls, pl.col("short") >= least)
    )
    loops = (
        sessions.join(found.select(*session, "calls"), on=list(session), how="inner")
        .with_columns(
            overlaps.fill_null(value=False).cast(pl.Int64).alias("overlaps"),
            (at % _SECOND_US != 0).cast(pl.Int64).alias("fraction"),
        )
        .with_columns(
            at.min().over(*session).alias("began"),
            at.max().over(*session).alias("ended"),
            pl.col("overlaps").sum().over(*session).cast(pl.Int64).alias("overlaps"),
            pl.col("fraction").max().over(*session).alias("fraction"),
            pause.median().over(*session).alias("median_pause"),
            pl.col("number").min().over(*session).alias("first"),
        )
        .filter(
            pl.col("ended") - pl.col("began") <= thresholds.d6_max_session_seconds * _SECOND_US,
            pl.col("overlaps") <= most_overlaps,
            pl.col("median_pause") <= longest_pause + QUANTILE_MARGIN,
        )
    )
    if has(sessions, "latency_ms"):
        loops = _filter_waiting(loops, session, thresholds)
    if not has(loops, "session"):
        # Numbers have no gaps within a group, and the session's calls are all in between.
        position = pl.col("number").cast(pl.Int64) - pl.col("first").cast(pl.Int64)
        return loops.with_columns(position.alias("position"))
    position = pl.col("position").cum_sum().over(*session, order_by="number") - 1
    return loops.with_columns(pl.lit(1, pl.Int64).alias("position")).with_columns(
        position.cast(pl.Int64).alias("position")
    )


def _is_short(calls: Calls, thresholds: Thresholds) -> pl.Expr:
    return (answer_tokens(calls) <= thresholds.d6_short_completion_tokens).cast(pl.Int64)


def _filter_waiting(loops: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Keep the sessions that wait for each answer; those without enough latencies stay."""
    latency_us = pl.col("latency_ms") * _MILLISECOND_US
    idle_us = pl.when(pl.col("latency_ms") >= 0).then(pl.col("next_us") - latency_us)
    least = pl.col("calls") * (thresholds.d6_min_latency_share - QUANTILE_MARGIN)
    shortest = -thresholds.d6_overlap_gap_seconds * _SECOND_US - QUANTILE_MARGIN
    waits = (pl.col("median_idle") >= shortest).fill_null(value=False)
    return (
        loops.with_columns(
            (pl.col("latency_ms") >= 0).cast(pl.Int64).alias("timed"), idle_us.alias("idle_us")
        )
        .with_columns(
            pl.col("timed").sum().over(*session).cast(pl.Int64).alias("timed"),
            pl.col("idle_us").median().over(*session).alias("median_idle"),
        )
        .filter((pl.col("timed") < least) | waits)
    )


def mark_hashed(loops: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Mark the sessions that one prefix hash covers enough."""
    covered = pl.when(pl.col("prefix") > 0).then(pl.col("alike")).otherwise(pl.lit(0))
    least = pl.col("calls") * (thresholds.d6_min_hash_share - QUANTILE_MARGIN)
    is_hashed = (pl.col("most_alike") > 0) & (pl.col("most_alike") >= least)
    return (
        loops.with_columns(pl.len().over(*session, "prefix").cast(pl.Int64).alias("alike"))
        .with_columns(covered.alias("alike"))
        .with_columns(pl.col("alike").max().over(*session).alias("most_alike"))
        .with_columns(is_hashed.alias("is_hashed"))
    )
