"""Duplicate calls.

The same call repeated within seconds.

Costs you
---------
The full price of every repetition: retries without backoff, double clicks, two workers on one
queue, a loop that repeats a call because an answer failed validation.

Fires on
--------
Bursts of at least 3 equal calls of a route to one model, each within 30 seconds of the previous
call. Savings: the full cost of all but the first. Two kinds. `same_prompt`: the prefix hash is
equal, the prompt has at most 800 tokens (so the hash covers all of it), and at least 95% of the
calls with that hash have this exact length. `same_shape`: hash (or its absence), prompt length and
answer length are equal, the answer has at least 20 tokens, and the burst is at least half of what
the route sent to the model between its first call and its last.

Stays quiet on
--------------
Different questions behind one system prompt: equal hash and equal length alone are not enough.
Bursts without a hash on a busy route are missed; sending a prefix hash finds them.

Do instead
----------
Retry with exponential backoff and a limit, send an idempotency key, cache the last answer.

Sources
-------
Counted from the records themselves.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import ESTIMATED, MARGIN, VERIFIED, Detector, FlaggedCalls, Kind, flag
from detectors.wording.evidence import BILLED, COST, SAVINGS, TIME

_SAME_PROMPT, _SAME_SHAPE = range(2)
_HASH = ("group", "prefix")
_PROMPT = (*_HASH, "prompt_tokens")
_IDENTITY = (*_PROMPT, "shape")
_BURST = (*_IDENTITY, "burst")
_SECOND_US = 1_000_000


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    bursts = _split(_identify(calls, thresholds), thresholds).with_columns(
        nw.len().over(*_BURST).cast(nw.Int64).alias("calls"),
        nw.col("number").min().over(*_BURST).cast(nw.Int64).alias("first"),
        nw.col("number").max().over(*_BURST).cast(nw.Int64).alias("last"),
    )
    # Numbers have no gaps within a group, so their distance counts the group's calls in between.
    span = nw.col("last") - nw.col("first") + 1
    is_dense = nw.col("calls") >= span * thresholds.d4_same_shape_min_share - MARGIN
    repeats = bursts.filter(
        nw.col("calls") >= thresholds.d4_min_burst_calls,
        (nw.col("shape") < 0) | is_dense,
        nw.col("number") > nw.col("first"),
    )
    kind = nw.when(nw.col("shape") < 0).then(_SAME_PROMPT).otherwise(_SAME_SHAPE)
    return flag(repeats, kind, nw.col("cost_usd"))


def _identify(calls: Calls, thresholds: Thresholds) -> Calls:
    """Return calls with enough repetitions; `shape` is -1 if the hash covers the whole prompt.

    Otherwise the shape is the length of the answer.
    """
    is_whole = (
        (nw.col("prefix") > 0)
        & (nw.col("prompt_tokens") <= thresholds.d4_whole_prompt_tokens)
        & (nw.col("alike") >= nw.col("hashed") * thresholds.d4_same_prompt_share - MARGIN)
    )
    shape = nw.when(is_whole).then(-1).otherwise(nw.col("completion_tokens"))
    has_shape = nw.col("shape") >= thresholds.d4_same_shape_min_completion_tokens
    return (
        calls.select(*_PROMPT, "completion_tokens", "number", "at_us", "in_window", "cost_usd")
        .with_columns(
            nw.len().over(*_PROMPT).cast(nw.Int64).alias("alike"),
            nw.len().over(*_HASH).cast(nw.Int64).alias("hashed"),
        )
        # All calls of a burst have the same hash and prompt length.
        .filter(nw.col("alike") >= thresholds.d4_min_burst_calls)
        .with_columns(shape.cast(nw.Int64).alias("shape"))
        .filter((nw.col("shape") < 0) | has_shape)
        .with_columns(nw.len().over(*_IDENTITY).alias("calls"))
        .filter(nw.col("calls") >= thresholds.d4_min_burst_calls)
    )


def _split(calls: Calls, thresholds: Thresholds) -> Calls:
    """Number the bursts of each identity."""
    before = nw.col("at_us").shift(1).over(*_IDENTITY, order_by="number")
    starts = nw.col("pause_us") > thresholds.d4_gap_seconds * _SECOND_US
    burst = nw.col("starts").cum_sum().over(*_IDENTITY, order_by="number")
    return (
        calls.with_columns((nw.col("at_us") - before).fill_null(0).alias("pause_us"))
        .with_columns(starts.cast(nw.Int32).alias("starts"))
        .with_columns(burst.cast(nw.Int64).alias("burst"))
    )


THRESHOLDS = {
    "d4_whole_prompt_tokens": 800,
    "d4_same_prompt_share": 0.95,
    "d4_same_shape_min_completion_tokens": 20,
    "d4_same_shape_min_share": 0.5,
    "d4_gap_seconds": 30.0,
    "d4_min_burst_calls": 3,
}


def advise(flagged: FlaggedCalls) -> str:
    proof = (
        "with the same prompt (equal hash over all of it)"
        if flagged.kind == "same_prompt"
        else "of equal prompt and answer length, with few or no other calls in between"
    )
    return (
        f"Stop {flagged.route} from sending the same call again within "
        f"{flagged.thresholds.d4_gap_seconds:g} seconds: {flagged.calls:,} of its "
        f"{flagged.group_calls:,} calls to {flagged.model} repeated an earlier one {proof}, "
        f"{flagged.median_prompt_tokens:,.0f} tokens in and "
        f"{flagged.median_completion_tokens:,.0f} out (medians). Look for retries without a pause, "
        "double submits and two workers on one queue; reuse the first answer."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    return f"Full cost of {flagged.counted}: {flagged.saving}"


DETECTOR = Detector(
    id="d4_duplicate_calls",
    kinds=(Kind("same_prompt", VERIFIED), Kind("same_shape", ESTIMATED)),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, COST, SAVINGS),
)
