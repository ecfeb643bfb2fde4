"""Splits the calls of a route into sessions, and finds those that look like a loop."""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import MARGIN, QUANTILE_MARGIN

_SECOND_US = 1_000_000
_SESSION = ("group", "session")


def split_sessions(calls: Calls, thresholds: Thresholds) -> Calls:
    """Number each group's sessions; `pause_us` is null for a session's first call."""
    before = nw.col("at_us").shift(1).over("group", order_by="number")
    is_new = nw.col("pause_us") > thresholds.d6_session_gap_seconds * _SECOND_US
    session = nw.col("is_new").cum_sum().over("group", order_by="number")
    within = nw.when(nw.col("is_new") == 0).then(nw.col("pause_us"))
    return (
        calls.with_columns((nw.col("at_us") - before).alias("pause_us"))
        .with_columns(is_new.fill_null(value=False).cast(nw.Int32).alias("is_new"))
        .with_columns(session.cast(nw.Int64).alias("session"), within.alias("pause_us"))
    )


def filter_loops(sessions: Calls, thresholds: Thresholds) -> Calls:
    """Keep the sessions that look like a loop; `first` is the number of the first call."""
    pause, at = nw.col("pause_us"), nw.col("at_us")
    overlaps = pause < thresholds.d6_overlap_gap_seconds * _SECOND_US
    longest_pause = thresholds.d6_max_median_gap_seconds * _SECOND_US
    return (
        _filter_short(sessions, thresholds)
        .with_columns(
            overlaps.fill_null(value=False).cast(nw.Int64).alias("overlaps"),
            (at % _SECOND_US != 0).cast(nw.Int64).alias("fraction"),
        )
        .with_columns(
            nw.col("number").min().over(*_SESSION).alias("first"),
            at.min().over(*_SESSION).alias("began"),
            at.max().over(*_SESSION).alias("ended"),
            nw.col("overlaps").sum().over(*_SESSION).cast(nw.Int64).alias("overlaps"),
            nw.col("fraction").max().over(*_SESSION).alias("fraction"),
            pause.median().over(*_SESSION).alias("median_pause"),
        )
        .filter(
            nw.col("ended") - nw.col("began") <= thresholds.d6_max_session_seconds * _SECOND_US,
            nw.col("overlaps") <= _most_overlaps(thresholds) + MARGIN,
            nw.col("median_pause") <= longest_pause + QUANTILE_MARGIN,
        )
    )


def _filter_short(sessions: Calls, thresholds: Thresholds) -> Calls:
    """Keep the sessions with enough short answers, which are few."""
    short = nw.col("completion_tokens") <= thresholds.d6_short_completion_tokens
    return (
        sessions.with_columns(short.cast(nw.Int64).alias("short"))
        .with_columns(
            nw.len().over(*_SESSION).cast(nw.Int64).alias("calls"),
            nw.col("short").sum().over(*_SESSION).cast(nw.Int64).alias("short"),
        )
        .filter(
            nw.col("calls") >= thresholds.d6_min_calls,
            nw.col("short") >= nw.col("calls") * thresholds.d6_min_short_share - MARGIN,
        )
    )


def _most_overlaps(thresholds: Thresholds) -> nw.Expr:
    """Return the allowed overlaps; with times in whole seconds, these are pauses of zero."""
    pauses = nw.col("calls") - 1
    return (
        nw.when(nw.col("fraction") == 0)
        .then(pauses * thresholds.d6_max_zero_gap_share)
        .otherwise(pauses * thresholds.d6_max_overlap_share)
    )


def mark_proven(loops: Calls, thresholds: Thresholds) -> Calls:
    """Mark the sessions that one prefix hash covers enough, and their groups."""
    covered = nw.when(nw.col("prefix") > 0).then(nw.col("alike")).otherwise(0)
    enough = nw.col("calls") * thresholds.d6_min_hash_share - MARGIN
    is_proven = (nw.col("most_alike") > 0) & (nw.col("most_alike") >= enough)
    return (
        loops.with_columns(nw.len().over(*_SESSION, "prefix").cast(nw.Int64).alias("alike"))
        .with_columns(covered.alias("alike"))
        .with_columns(nw.col("alike").max().over(*_SESSION).alias("most_alike"))
        .with_columns(is_proven.cast(nw.Int8).alias("is_proven"))
        .with_columns(nw.col("is_proven").max().over("group").alias("has_proof"))
    )
