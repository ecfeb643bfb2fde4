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

import polars as pl

from detectors.engine import Calls
from detectors.prices.calls import LEVELS_GIVEN
from detectors.rules.caching.levels import compare, highest_equal, measure, of_pair
from detectors.rules.columns import has
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
    per_mtok,
)
from detectors.rules.loop_sessions import filter_loops, mark_hashed, split_sessions
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


DETECTOR = Detector(
    id="d6_chatty_loop",
    kinds=(Kind("hashed", ESTIMATED), Kind("unhashed", INFORMATIONAL)),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, PAUSE, COST, SAVINGS),
)
