"""Unbatched calls.

One item per call where one call could take many.

Costs you
---------
The same instructions sent again for every item of a list, when one request could take several.

Fires on
--------
Sessions of a labeled route to one model: its calls in time order (of one session ID, if they have
it), split at pauses of over 15 minutes. A session counts if it has at least 10 calls in at most 2
hours, at least 80% of them with answers of at most 100 tokens (without reasoning), a median pause
of at most a minute and almost no overlap (at most 5% of the pauses under a quarter of a second; if
all times are whole seconds, at most 30% of the pauses zero). If at least 90% of its calls have a
latency, the next call must usually come after the answer. Five calls could have been a single
request: of each five, all but the first are flagged. Two kinds. `hashed`: one prefix hash covers at
least half of the session. Savings: half of the prompt cost of the flagged calls; the range is from
a quarter to 80%. Hashes by level show what a call has in common with the one before; then that
counts, and the range is from half of it to the length at which both are known to differ.
`unhashed`: the others; no savings are claimed.

Stays quiet on
--------------
Calls without tag and endpoint, long answers, and traffic that overlaps or never pauses: a loop
waits for its answer; a crowd of users doesn't.

Do instead
----------
Send several items in one request, or use the provider's batch API.

Sources
-------
Counted from the records themselves; half of the prompt and five items per request are assumptions.
"""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.engine.neighbors import split_at_pauses
from detectors.prices.calls import LEVELS_GIVEN
from detectors.rules.caching.levels import compare, highest_equal, measure, of_pair
from detectors.rules.columns import answer_tokens, has
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
    per_mtok,
)
from detectors.wording.evidence import BILLED, COST, PAUSE, SAVINGS, TIME

THRESHOLDS = {
    "d6_session_gap_seconds": 900.0,
    "d6_min_calls": 10,
    "d6_max_session_seconds": 7_200.0,
    "d6_short_completion_tokens": 100,
    "d6_min_short_share": 0.8,
    "d6_max_median_gap_seconds": 60.0,
    "d6_overlap_gap_seconds": 0.25,
    "d6_max_overlap_share": 0.05,
    "d6_max_zero_gap_share": 0.30,
    "d6_min_latency_share": 0.9,
    "d6_calls_per_request": 5,
    "d6_saving_share": 0.5,
    "d6_low_share": 0.5,
    "d6_high_saving_share": 0.8,
    "d6_min_hash_share": 0.5,
}
_HASHED, _UNHASHED = range(2)
_SECOND_US = 1_000_000
_MILLISECOND_US: Final = 1_000


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    sessions, keys = split_sessions(calls.filter(pl.col("has_route") == 1), thresholds)
    loops = mark_hashed(filter_loops(sessions, keys, thresholds), keys, thresholds)
    is_hashed = pl.col("is_hashed")
    prompt_usd = pl.col("prompt_tokens") * pl.col("input_usd_per_token")
    shares = (thresholds.d6_saving_share, thresholds.d6_high_saving_share)
    saving, high = (prompt_usd * share for share in shares)
    if has(calls, LEVELS_GIVEN):
        # How much each call begins with in common with the one before it in its session.
        before = pl.col("row").shift(1).over(*keys, order_by="number")
        paired = loops.with_row_index("row").with_columns(before.alias("pair"))
        compared = compare(
            paired.with_columns(
                highest_equal(paired).alias("level"),
                of_pair(pl.col("prompt_tokens")).alias("pair_prompt"),
            )
        )
        loops = measure(compared, thresholds)
        saving, high = (
            pl.when(pl.col("with_levels"))
            .then(pl.col(shared) * pl.col("input_usd_per_token"))
            .otherwise(assumed)
            for shared, assumed in (("shared", saving), ("shared_high", high))
        )
    # Calls that could have shared an earlier call's request.
    followers = loops.filter(pl.col("position") % thresholds.d6_calls_per_request != 0)
    saving, high = (pl.when(is_hashed).then(usd).otherwise(pl.lit(0.0)) for usd in (saving, high))
    repeated = pl.lit(0.0)  # counted only in logs with hashes by level
    if has(loops, "with_levels"):
        assumed = thresholds.d6_saving_share * pl.col("prompt_tokens")
        tokens = pl.when(pl.col("with_levels")).then(pl.col("shared")).otherwise(assumed)
        repeated = pl.when(pl.col("is_hashed")).then(tokens).otherwise(repeated)
    return flag(
        followers,
        pl.when(is_hashed).then(pl.lit(_HASHED)).otherwise(pl.lit(_UNHASHED)),
        saving,
        low_usd=saving * thresholds.d6_low_share,
        high_usd=high,
        prefix_tokens=repeated,
        pause_seconds=pl.col("pause_us") / _SECOND_US,
        basis=pl.col("position"),
    )


def advise(flagged: FlaggedCalls) -> str:
    loop = (
        f"Send several items per request from {flagged.route} to {flagged.model}: "
        f"{flagged.calls_of_group} were sent one after another and "
        f"got short answers (median {flagged.median_completion_tokens:,.0f} tokens for prompts of "
        f"{flagged.median_prompt_tokens:,.0f}). "
    )
    if flagged.confidence == INFORMATIONAL:
        return loop + (
            "Without prefix hashes we can't see whether they repeat the same instructions, so no "
            "savings are claimed; send prefix_hash to find out."
        )
    items = flagged.thresholds.d6_calls_per_request
    if flagged.sharing_calls:
        return loop + (
            f"{items} items in one request send the instructions once: {flagged.shared_part} are "
            "the same as in the call before, and are counted as repetition of every call but the "
            f"first of {items}."
        )
    return loop + (
        f"{items} items in one request send the instructions once; "
        f"{flagged.share('d6_saving_share')} of the prompt of every call but the first of {items} "
        "is counted as repetition."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    if flagged.sharing_calls:
        return (
            f"{flagged.total_prefix_tokens:,.0f} tokens in common with the call before × input "
            f"rate ({per_mtok(flagged.input_usd_per_mtok)}), over {flagged.counted} that cost "
            f"{flagged.cost}: {flagged.saving}"
        )
    return (
        f"{flagged.share('d6_saving_share')} × prompt tokens × input rate "
        f"({per_mtok(flagged.input_usd_per_mtok)}), over {flagged.counted} that cost "
        f"{flagged.cost}: {flagged.saving}"
    )


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
    # Most sessions are too long or have too few short answers: before any window is computed.
    found = (
        sessions.select(*session, "at_us", _is_short(sessions, thresholds).alias("short"))
        .group_by(*session)
        .agg(pl.len().alias("calls"), pl.col("short").sum(), (at.max() - at.min()).alias("span"))
        .with_columns(pl.col("calls").cast(pl.Int64))
        .filter(
            pl.col("calls") >= thresholds.d6_min_calls,
            pl.col("short") >= least,
            pl.col("span") <= thresholds.d6_max_session_seconds * _SECOND_US,
        )
    )
    loops = (
        sessions.join(found.select(*session, "calls"), on=list(session), how="inner")
        .with_columns(
            overlaps.fill_null(value=False).cast(pl.Int64).alias("overlaps"),
            (at % _SECOND_US != 0).cast(pl.Int64).alias("fraction"),
        )
        .with_columns(
            pl.col("overlaps").sum().over(*session).cast(pl.Int64).alias("overlaps"),
            pl.col("fraction").max().over(*session).alias("fraction"),
            pause.median().over(*session).alias("median_pause"),
            pl.col("number").min().over(*session).alias("first"),
        )
        .filter(
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


DETECTOR = Detector(
    id="d6_chatty_loop",
    kinds=(Kind("hashed", ESTIMATED), Kind("unhashed", INFORMATIONAL)),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, PAUSE, COST, SAVINGS),
)
