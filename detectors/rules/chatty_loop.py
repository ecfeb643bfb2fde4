"""A loop that asks one item at a time.

Costs you
---------
The same instructions sent again for every item of a list, when one request could take several.

Fires on
--------
Sessions of a labelled route to one model: its calls in time order, split where nothing was sent for
over 15 minutes. A session counts with at least 10 calls in at most 2 hours, of which at least 80%
got answers of at most 100 tokens, with a usual pause of at most a minute and next to no overlap (at
most 5% of the pauses under a quarter of a second; where all times are whole seconds, at most 30%
of zero). Five calls could have been one: of each five all but the first are flagged, and count with
half of what their prompt cost where one prefix hash covers at least half of the session.

Stays quiet on
--------------
Calls without tag and endpoint, long answers, and traffic that overlaps or never pauses: a loop
waits for its answer, many users do not.

Do instead
----------
Ask for several items in one request, or use the vendor's batch interface.

Sources
-------
Counted from the records themselves; the half and the five are assumptions, stated as such.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    MARGIN,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    Kind,
    flag,
)
from detectors.wording.figures import percent

_PROVEN, _UNPROVEN = range(2)
_SECOND_US = 1_000_000
_SESSION = ("group", "session")


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    sessions = _split(calls.filter(nw.col("has_route") == 1), thresholds)
    loops = _prove(_filter_loops(sessions, thresholds), thresholds)
    place = (nw.col("number") - nw.col("first")) % thresholds.d6_calls_per_request
    # Those that could have shared the request of the call before them.
    followers = loops.filter(place != 0)
    repeated = nw.col("prompt_tokens") * nw.col("input_usd_per_token")
    saving = repeated * thresholds.d6_saving_share * nw.col("is_proven")
    # A group has one finding: with dollars where any of its sessions shares a prefix.
    kind = nw.when(nw.col("has_proof") == 1).then(_PROVEN).otherwise(_UNPROVEN)
    return flag(followers, kind, saving)


def _split(calls: Calls, thresholds: Thresholds) -> Calls:
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


def _filter_loops(sessions: Calls, thresholds: Thresholds) -> Calls:
    """The calls of sessions that look like a loop, with the number of the session's first call."""
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
    """The calls of sessions of enough calls with short answers: most are ruled out here."""
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
    """Between times in whole seconds a pause under a quarter of a second is a pause of zero."""
    pauses = nw.col("calls") - 1
    return (
        nw.when(nw.col("fraction") == 0)
        .then(pauses * thresholds.d6_max_zero_gap_share)
        .otherwise(pauses * thresholds.d6_max_overlap_share)
    )


def _prove(loops: Calls, thresholds: Thresholds) -> Calls:
    """Mark the sessions of which one prefix hash covers enough, and the groups that have one."""
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


def advise(facts: Facts) -> str:
    loop = (
        f"Let {facts.route} ask {facts.model} for several items at once: {facts.calls:,} of its "
        f"{facts.group_calls:,} calls came one after another with short answers (median "
        f"{facts.median_completion_tokens:,.0f} tokens for prompts of "
        f"{facts.median_prompt_tokens:,.0f}). "
    )
    if facts.confidence == INFORMATIONAL:
        return loop + (
            "Without prefix hashes it cannot be told whether they repeat the same instructions, so "
            "no dollars are claimed; send prefix_hash to find out."
        )
    items = facts.thresholds.d6_calls_per_request
    return loop + (
        f"{items} items in one request send the instructions once; "
        f"{percent(facts.thresholds.d6_saving_share * 100)} of the prompt of every call but the "
        f"first of {items} is taken to be such repetition."
    )


DETECTOR = Detector(
    id="d6_chatty_loop",
    kinds=(Kind("", ESTIMATED), Kind("", INFORMATIONAL)),
    find=find,
    advise=advise,
)
