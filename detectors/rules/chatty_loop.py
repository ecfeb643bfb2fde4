"""A loop that asks one item at a time.

Costs you
---------
The same instructions sent again for every item of a list, when one request could take several.

Fires on
--------
Sessions of a labelled route to one model: its calls in time order, split where nothing was sent for
over 15 minutes. A session counts with at least 10 calls in at most 2 hours, of which at least 80 %
got answers of at most 100 tokens, with a usual pause of at most a minute and next to no overlap (at
most 5 % of the pauses under a quarter of a second; where all times are whole seconds, at most 30 %
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

PROVEN, UNPROVEN = range(2)
_SECOND_US = 1_000_000
_SESSION = ["group", "session"]


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    spaced = _split(calls.filter(nw.col("has_route") == 1), thresholds)
    loops = _count_loops(spaced, thresholds)
    looping = spaced.join(loops, on=_SESSION, how="inner")
    proven = _find_proven(looping, thresholds)
    # A group has one finding: with dollars where any of its sessions shares a prefix.
    groups = proven.select("group").unique()
    place = (nw.col("number") - nw.col("first")) % thresholds.d6_calls_per_request
    # Those that could have shared the request of the call before them.
    followers = looping.filter(place != 0)
    priced = followers.join(groups, on="group", how="semi")
    saving = nw.col("prompt_tokens") * nw.col("input_usd_per_token") * thresholds.d6_saving_share
    nothing = nw.lit(0.0)
    kinds = [
        flag(priced.join(proven, on=_SESSION, how="semi"), PROVEN, saving),
        flag(priced.join(proven, on=_SESSION, how="anti"), PROVEN, nothing),
        flag(followers.join(groups, on="group", how="anti"), UNPROVEN, nothing),
    ]
    return nw.concat(kinds, how="vertical")


def _split(calls: Calls, thresholds: Thresholds) -> Calls:
    """Number each group's sessions; `pause_us` is null for a session's first call."""
    before = nw.col("at_us").shift(1).over("group", order_by="number")
    is_new = nw.col("pause_us") > thresholds.d6_session_gap_seconds * _SECOND_US
    within = nw.when(nw.col("is_new") == 0).then(nw.col("pause_us"))
    return (
        calls.with_columns((nw.col("at_us") - before).alias("pause_us"))
        .with_columns(is_new.fill_null(value=False).cast(nw.Int32).alias("is_new"))
        .with_columns(
            nw.col("is_new")
            .cum_sum()
            .over("group", order_by="number")
            .cast(nw.Int64)
            .alias("session"),
            within.alias("pause_us"),
        )
    )


def _count_loops(spaced: Calls, thresholds: Thresholds) -> Calls:
    """The sessions that look like a loop, with the number of their first call."""
    pause, at = nw.col("pause_us"), nw.col("at_us")
    short = nw.col("completion_tokens") <= thresholds.d6_short_completion_tokens
    overlaps = (pause < thresholds.d6_overlap_gap_seconds * _SECOND_US).fill_null(value=False)
    sessions = (
        spaced.with_columns(
            short.cast(nw.Int64).alias("short"),
            overlaps.cast(nw.Int64).alias("overlaps"),
            (at % _SECOND_US != 0).cast(nw.Int64).alias("fraction"),
        )
        .group_by(*_SESSION)
        .agg(
            nw.len().alias("calls"),
            nw.col("number").min().alias("first"),
            at.min().alias("began"),
            at.max().alias("ended"),
            nw.col("short").sum().alias("short"),
            pause.median().alias("median_pause"),
            nw.col("overlaps").sum().alias("overlaps"),
            nw.col("fraction").max().alias("fraction"),
        )
    )
    return _filter_loops(sessions, thresholds).select(*_SESSION, "first")


def _filter_loops(sessions: Calls, thresholds: Thresholds) -> Calls:
    pauses = nw.col("calls") - 1
    # Between times in whole seconds a pause under a quarter of a second is a pause of zero.
    allowed = (
        nw.when(nw.col("fraction") == 0)
        .then(pauses * thresholds.d6_max_zero_gap_share)
        .otherwise(pauses * thresholds.d6_max_overlap_share)
    )
    longest_pause = thresholds.d6_max_median_gap_seconds * _SECOND_US
    return sessions.filter(
        nw.col("calls") >= thresholds.d6_min_calls,
        nw.col("ended") - nw.col("began") <= thresholds.d6_max_session_seconds * _SECOND_US,
        nw.col("short") >= nw.col("calls") * thresholds.d6_min_short_share - MARGIN,
        nw.col("median_pause") <= longest_pause + QUANTILE_MARGIN,
        nw.col("overlaps") <= allowed + MARGIN,
    )


def _find_proven(calls: Calls, thresholds: Thresholds) -> Calls:
    """The sessions of which one prefix hash covers enough."""
    sizes = calls.group_by(*_SESSION).agg(nw.len().alias("calls"))
    hashed = calls.filter(nw.col("prefix") > 0)
    prefixes = hashed.group_by(*_SESSION, "prefix").agg(nw.len().alias("alike"))
    largest = prefixes.group_by(*_SESSION).agg(nw.col("alike").max().alias("alike"))
    return largest.join(sizes, on=_SESSION, how="inner").filter(
        nw.col("alike") >= nw.col("calls") * thresholds.d6_min_hash_share - MARGIN
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
    return loop + (
        "Five items in one request send the instructions once; half of the prompt of every call "
        "but the first of five is taken to be such repetition."
    )


DETECTOR = Detector(
    id="d6_chatty_loop",
    kinds=(Kind("", ESTIMATED), Kind("", INFORMATIONAL)),
    find=find,
    advise=advise,
)
