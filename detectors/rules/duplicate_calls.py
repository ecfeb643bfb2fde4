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

from collections.abc import Sequence
from math import floor
from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.engine.neighbors import filter_near
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    QUANTILE_MARGIN,
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
_HASH: Final = ("group", "prefix")
_PROMPT: Final = (*_HASH, "prompt_tokens")
_IDENTITY: Final = (*_PROMPT, "shape")
_BURST: Final = (*_IDENTITY, "burst")
_NEAREST: Final = 8  # rows that a row is compared with: more would take longer than it saves
# Two primes; a number below the second, times the first, fits in 64 bits.
_FACTOR: Final = 1_000_003
_MODULUS: Final = 2_147_483_629


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


def find_bursts(calls: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls of bursts, with `first`, the number of the burst's first call.

    `shape` is -1 if the hash covers the whole prompt; otherwise it is the length of the answer.
    """
    before = pl.col("at_us").shift(1).over(*_IDENTITY, order_by="number")
    starts = pl.col("pause_us") > thresholds.d4_gap_seconds * _SECOND_US
    burst = pl.col("starts").cum_sum().over(*_IDENTITY, order_by="number")
    bursts = (
        _identify(calls, thresholds)
        .with_columns((pl.col("at_us") - before).fill_null(0).alias("pause_us"))
        .with_columns(starts.cast(pl.Int32).alias("starts"))
        .with_columns(burst.cast(pl.Int64).alias("burst"))
        .with_columns(
            pl.len().over(*_BURST).cast(pl.Int64).alias("calls"),
            pl.col("number").min().over(*_BURST).cast(pl.Int64).alias("first"),
            pl.col("number").max().over(*_BURST).cast(pl.Int64).alias("last"),
        )
    )
    # Numbers have no gaps within a group, so their distance counts the group's calls in between.
    span = pl.col("last") - pl.col("first") + 1
    is_dense = pl.col("calls") >= span * (thresholds.d4_same_shape_min_share - QUANTILE_MARGIN)
    return bursts.filter(
        pl.col("calls") >= thresholds.d4_min_burst_calls, (pl.col("shape") < 0) | is_dense
    )


def _identify(calls: Calls, thresholds: Thresholds) -> Calls:
    """Return calls with enough repetitions, and their shape."""
    share = thresholds.d4_same_prompt_share - QUANTILE_MARGIN
    is_hashed, completion = pl.col("prefix") > 0, pl.col("completion_tokens").cast(pl.Int64)
    is_whole = (pl.col("prompt_tokens") <= thresholds.d4_whole_prompt_tokens) & (
        pl.col("alike") >= pl.col("hashed") * share
    )
    has_shape = pl.col("shape") >= thresholds.d4_same_shape_min_completion_tokens
    # Only hashes of short prompts cover them: counting those of all calls takes half of the time.
    short = calls.filter(is_hashed, pl.col("prompt_tokens") <= thresholds.d4_whole_prompt_tokens)
    hashed = (
        calls.filter(is_hashed)
        .join(short.select(_HASH).unique(), on=_HASH, how="semi", maintain_order="left")
        .with_columns(
            pl.len().over(*_PROMPT).cast(pl.Int64).alias("alike"),
            pl.len().over(*_HASH).cast(pl.Int64).alias("hashed"),
        )
        .with_columns(
            pl.when(is_whole).then(pl.lit(-1)).otherwise(completion).cast(pl.Int64).alias("shape")
        )
        .drop("alike", "hashed")
    )
    others = calls.with_columns(completion.alias("shape")).filter(has_shape)
    # How far apart the nearest two calls of a dense burst can be; 0 for any distance. Of c calls
    # that are a share s of all calls from the first to the last, the c - 1 distances add up to at
    # most c / s - 1. Their mean is largest for the fewest calls.
    least, most = thresholds.d4_min_burst_calls, 0
    dense = thresholds.d4_same_shape_min_share - QUANTILE_MARGIN
    if least >= 2 and dense > 0:
        most = max(floor((least / dense - 1) / (least - 1) + QUANTILE_MARGIN), 1)
    if 0 < most <= _NEAREST:
        others = filter_near(others, _IDENTITY, most)
    # Last, because it takes longer than all of the above for many calls.
    others = others.join(short.select(_HASH).unique(), on=_HASH, how="anti")
    hashed = hashed.filter((pl.col("shape") < 0) | has_shape)
    shaped = pl.concat([hashed, others], how="vertical")
    # By one number first, which few calls of other identities share: four columns take twice as
    # long.
    mixed = pl.lit(0, pl.Int64)
    for name in _IDENTITY:
        mixed = (mixed * _FACTOR + (pl.col(name) % _MODULUS).cast(pl.Int64) + 1) % _MODULUS
    numbered = shaped.with_columns(mixed.cast(pl.Int32).alias("mixed"))
    return _filter_repeated(_filter_repeated(numbered, ["mixed"], least), _IDENTITY, least)


def _filter_repeated(calls: Calls, by: Sequence[str], least: float) -> Calls:
    counted = calls.with_columns(pl.len().over(*by).alias("calls"))
    return counted.filter(pl.col("calls") >= least)


def compare_answers(bursts: Calls, thresholds: Thresholds) -> Calls:
    """Say of each group's bursts of one prompt whether their answers and their sizes are equal.

    Adds `is_repeat` and `is_equal`, whether the call is not its burst's first and has its answer's
    length; `has_equal_answers` and `is_sampled` of the group; and `usual_size` of its bursts.
    """
    kind = ("group", "is_prompt")
    is_first, completion = pl.col("number") == pl.col("first"), pl.col("completion_tokens")
    is_equal = (pl.col("is_repeat") == 1) & (completion == pl.col("answer"))
    equal_share = thresholds.d4_equal_answers_share - QUANTILE_MARGIN
    size_share = thresholds.d4_sampling_share - QUANTILE_MARGIN
    has_equal_answers = pl.col("equal") >= pl.col("repeats") * equal_share
    is_sampled = (pl.col("bursts") >= thresholds.d4_sampling_min_bursts) & (
        pl.col("most_alike") >= pl.col("bursts") * size_share
    )
    usual = pl.when(pl.col("alike_sizes") == pl.col("most_alike")).then(pl.col("calls"))
    return (
        bursts.with_columns(
            (pl.col("shape") < 0).cast(pl.Int64).alias("is_prompt"),
            is_first.cast(pl.Int64).alias("bursts"),
            (~is_first).cast(pl.Int64).alias("is_repeat"),
            pl.when(is_first).then(completion).otherwise(pl.lit(-1)).alias("answer"),
        )
        .with_columns(
            pl.col("answer").max().over(*_BURST),
            pl.col("bursts").sum().over(*kind, "calls").cast(pl.Int64).alias("alike_sizes"),
        )
        .with_columns(is_equal.cast(pl.Int64).alias("is_equal"))
        .with_columns(
            pl.col("is_equal").sum().over(*kind).cast(pl.Int64).alias("equal"),
            pl.col("is_repeat").sum().over(*kind).cast(pl.Int64).alias("repeats"),
            pl.col("bursts").sum().over(*kind).cast(pl.Int64).alias("bursts"),
            pl.col("alike_sizes").max().over(*kind).alias("most_alike"),
        )
        .with_columns(
            has_equal_answers.alias("has_equal_answers"),
            is_sampled.alias("is_sampled"),
            usual.alias("usual_size"),
        )
        .with_columns(pl.col("usual_size").max().over(*kind))
    )


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
