"""Splits the calls of a route into sessions, and finds those that look like a loop."""

from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls, engine_of
from detectors.rules.columns import answer_tokens, has
from detectors.rules.detector import QUANTILE_MARGIN

_SECOND_US: Final = 1_000_000
_MILLISECOND_US: Final = 1_000


def _filter_groups(calls: Calls, thresholds: Thresholds) -> Calls:
    """Keep the groups with enough short answers for a session, before any window is computed."""
    least = thresholds.d6_min_calls * (thresholds.d6_min_short_share - QUANTILE_MARGIN)
    groups = (
        calls.select("group", _is_short(calls, thresholds).alias("short"))
        .group_by("group")
        .agg(nw.len().alias("calls"), nw.col("short").sum())
        .filter(nw.col("calls") >= thresholds.d6_min_calls, nw.col("short") >= least)
    )
    return calls.join(groups, on="group", how="semi")


def split_sessions(calls: Calls, thresholds: Thresholds) -> tuple[Calls, tuple[str, ...]]:
    """Number each group's sessions; return the columns that identify one too.

    Calls with a session ID are split by it. `pause_us` is null for a session's first call, and
    `next_us`, the pause after a call, for its last.
    """
    keys = ("group", "session") if has(calls, "session") else ("group",)
    longest_us = thresholds.d6_session_gap_seconds * _SECOND_US
    engine = engine_of(calls)
    if len(keys) > 1 or not engine.has_calls_in_order:
        calls = _filter_groups(calls, thresholds)
    return engine.split_at_pauses(calls, keys, longest_us)


def filter_loops(sessions: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Keep the sessions that look like a loop, and number their calls from 0 as `position`."""
    pause, at = nw.col("pause_us"), nw.col("at_us")
    overlaps = pause < thresholds.d6_overlap_gap_seconds * _SECOND_US
    longest_pause = thresholds.d6_max_median_gap_seconds * _SECOND_US
    loops = (
        _filter_short(sessions, session, thresholds)
        .with_columns(
            overlaps.fill_null(value=False).cast(nw.Int64).alias("overlaps"),
            (at % _SECOND_US != 0).cast(nw.Int64).alias("fraction"),
        )
        .with_columns(
            at.min().over(*session).alias("began"),
            at.max().over(*session).alias("ended"),
            nw.col("overlaps").sum().over(*session).cast(nw.Int64).alias("overlaps"),
            nw.col("fraction").max().over(*session).alias("fraction"),
            pause.median().over(*session).alias("median_pause"),
            nw.col("number").min().over(*session).alias("first"),
        )
        .filter(
            nw.col("ended") - nw.col("began") <= thresholds.d6_max_session_seconds * _SECOND_US,
            nw.col("overlaps") <= _most_overlaps(thresholds),
            nw.col("median_pause") <= longest_pause + QUANTILE_MARGIN,
        )
    )
    if has(sessions, "latency_ms"):
        loops = _filter_waiting(loops, session, thresholds)
    return _number_calls(loops, session)


def _number_calls(loops: Calls, session: tuple[str, ...]) -> Calls:
    if not has(loops, "session"):
        # Numbers have no gaps within a group, and the session's calls are all in between.
        position = nw.col("number").cast(nw.Int64) - nw.col("first").cast(nw.Int64)
        return loops.with_columns(position.alias("position"))
    position = nw.col("position").cum_sum().over(*session, order_by="number") - 1
    return loops.with_columns(nw.lit(1, nw.Int64).alias("position")).with_columns(
        position.cast(nw.Int64).alias("position")
    )


def _filter_short(sessions: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Keep the sessions with enough short answers, which are few, and add their `calls`."""
    least = nw.col("calls") * (thresholds.d6_min_short_share - QUANTILE_MARGIN)
    found = (
        sessions.select(*session, _is_short(sessions, thresholds).alias("short"))
        .group_by(*session)
        .agg(nw.len().alias("calls"), nw.col("short").sum())
        .with_columns(nw.col("calls").cast(nw.Int64))
        .filter(nw.col("calls") >= thresholds.d6_min_calls, nw.col("short") >= least)
    )
    return sessions.join(found.select(*session, "calls"), on=list(session), how="inner")


def _is_short(calls: Calls, thresholds: Thresholds) -> nw.Expr:
    return (answer_tokens(calls) <= thresholds.d6_short_completion_tokens).cast(nw.Int64)


def _most_overlaps(thresholds: Thresholds) -> nw.Expr:
    """Return the allowed overlaps; with times in whole seconds, these are pauses of zero."""
    pauses = nw.col("calls") - 1
    return (
        nw.when(nw.col("fraction") == 0)
        .then(pauses * (thresholds.d6_max_zero_gap_share + QUANTILE_MARGIN))
        .otherwise(pauses * (thresholds.d6_max_overlap_share + QUANTILE_MARGIN))
    )


def _filter_waiting(loops: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Keep the sessions that wait for each answer; those without enough latencies stay."""
    latency_us = nw.col("latency_ms") * _MILLISECOND_US
    idle_us = nw.when(nw.col("latency_ms") >= 0).then(nw.col("next_us") - latency_us)
    least = nw.col("calls") * (thresholds.d6_min_latency_share - QUANTILE_MARGIN)
    shortest = -thresholds.d6_overlap_gap_seconds * _SECOND_US - QUANTILE_MARGIN
    waits = (nw.col("median_idle") >= shortest).fill_null(value=False)
    return (
        loops.with_columns(
            (nw.col("latency_ms") >= 0).cast(nw.Int64).alias("timed"), idle_us.alias("idle_us")
        )
        .with_columns(
            nw.col("timed").sum().over(*session).cast(nw.Int64).alias("timed"),
            nw.col("idle_us").median().over(*session).alias("median_idle"),
        )
        .filter((nw.col("timed") < least) | waits)
    )


def mark_hashed(loops: Calls, session: tuple[str, ...], thresholds: Thresholds) -> Calls:
    """Mark the sessions that one prefix hash covers enough."""
    covered = nw.when(nw.col("prefix") > 0).then(nw.col("alike")).otherwise(nw.lit(0))
    least = nw.col("calls") * (thresholds.d6_min_hash_share - QUANTILE_MARGIN)
    is_hashed = (nw.col("most_alike") > 0) & (nw.col("most_alike") >= least)
    return (
        loops.with_columns(nw.len().over(*session, "prefix").cast(nw.Int64).alias("alike"))
        .with_columns(covered.alias("alike"))
        .with_columns(nw.col("alike").max().over(*session).alias("most_alike"))
        .with_columns(is_hashed.alias("is_hashed"))
    )
