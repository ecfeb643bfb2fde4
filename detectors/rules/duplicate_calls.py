"""Duplicate calls.

The same call repeated within seconds.

Costs you
---------
The full price of every repetition: retries without backoff, double clicks, two workers on one
queue, or a loop that repeats a call because an answer failed validation.

Fires on
--------
Bursts of at least 3 equal calls of a route to one model, each within 30 seconds of the previous
call. Savings: the full cost of all but the first. Two kinds. `same_prompt`: the prefix hash is
equal, the prompt has at most 800 tokens (so the hash covers all of it), and at least 95% of the
calls with that hash have this exact length. Verified if at least half of the repetitions got an
answer of the first call's length; otherwise estimated, with $0 as the low end, and without any
savings if there are at least 3 bursts and 9 in 10 of them have one size, which is deliberate
sampling. `same_shape`: hash (or its absence), prompt length and answer length are equal, the answer
has at least 20 tokens, and the burst is at least half of what the route sent to the model between
its first call and its last; the low end is $0.

Stays quiet on
--------------
Different questions behind one system prompt: equal hash and equal length alone are not enough.
Bursts without a hash on a busy route are missed; sending a prefix hash finds them.

Do instead
----------
Retry with exponential backoff and a limit, send an idempotency key, and cache the last answer.

Sources
-------
Counted from the records themselves.
"""

import polars as pl

from detectors.engine import Calls
from detectors.rules.bursts import compare_answers, find_bursts
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    VERIFIED,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
)
from detectors.wording.evidence import BILLED, COST, PAUSE, SAVINGS, TIME

THRESHOLDS = {
    "d4_whole_prompt_tokens": 800,
    "d4_same_prompt_share": 0.95,
    "d4_same_shape_min_completion_tokens": 20,
    "d4_same_shape_min_share": 0.5,
    "d4_gap_seconds": 30.0,
    "d4_min_burst_calls": 3,
    "d4_equal_answers_share": 0.5,
    "d4_sampling_min_bursts": 3,
    "d4_sampling_share": 0.9,
}
_EQUAL, _DIFFERENT, _SAMPLED, _SAME_SHAPE = range(4)
_SECOND_US = 1_000_000


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    kind = (
        pl.when(pl.col("is_prompt") == 0)
        .then(pl.lit(_SAME_SHAPE))
        .when(pl.col("has_equal_answers"))
        .then(pl.lit(_EQUAL))
        .when(pl.col("is_sampled"))
        .then(pl.lit(_SAMPLED))
        .otherwise(pl.lit(_DIFFERENT))
    )
    repeats = (
        compare_answers(find_bursts(calls, thresholds), thresholds)
        .filter(pl.col("is_repeat") == 1)
        .with_columns(kind.alias("kind"))
    )
    kind, cost, nothing = pl.col("kind"), pl.col("cost_usd"), pl.lit(0.0)
    basis = pl.when(kind == _SAMPLED).then(pl.col("usual_size")).otherwise(pl.col("is_equal"))
    return flag(
        repeats,
        kind,
        pl.when(kind != _SAMPLED).then(cost).otherwise(nothing),
        low_usd=pl.when(kind == _EQUAL).then(cost).otherwise(nothing),
        pause_seconds=pl.col("pause_us") / _SECOND_US,
        basis=basis,
    )


def advise(flagged: FlaggedCalls) -> str:
    opening = (
        f"{flagged.calls_of_group} to {flagged.model} repeated an earlier call within "
        f"{flagged.thresholds.d4_gap_seconds:g} seconds"
    )
    shape = (
        f"(medians: {flagged.median_prompt_tokens:,.0f} tokens in, "
        f"{flagged.median_completion_tokens:,.0f} out)"
    )
    if flagged.confidence == INFORMATIONAL:
        return (
            f"Check that {flagged.route} samples on purpose: {opening} with the same prompt and "
            f"different answers {shape}, nearly always {flagged.largest_basis:g} calls at a time. "
            "That looks like sampling of several answers, so no savings are claimed; where the API "
            "allows it, request several answers (n) in one call."
        )
    proof = "with the same prompt and answer lengths and few or no other calls in between"
    if flagged.kind == "same_prompt":
        proof = "with the same prompt, as its full hash shows"
    if flagged.kind == "same_prompt" and flagged.confidence == ESTIMATED:
        proof = f"{proof}, but mostly with different answers, so they may be intended"
    return (
        f"Stop {flagged.route} from sending the same call again: {opening} {proof} {shape}. Look "
        "for retries without a pause, double submits and two workers on one queue, and reuse the "
        "first answer."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    return f"Full cost of {flagged.counted}: {flagged.saving}"


DETECTOR = Detector(
    id="d4_duplicate_calls",
    kinds=(
        Kind("same_prompt", VERIFIED),
        Kind("same_prompt", ESTIMATED),
        Kind("same_prompt", INFORMATIONAL),
        Kind("same_shape", ESTIMATED),
    ),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, PAUSE, COST, SAVINGS),
)
