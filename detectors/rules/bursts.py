"""Splits equal calls into bursts, and says what the bursts of a group have in common."""

from collections.abc import Sequence
from math import floor
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls, engine_of
from detectors.rules.detector import QUANTILE_MARGIN

_HASH: Final = ("group", "prefix")
_PROMPT: Final = (*_HASH, "prompt_tokens")
_IDENTITY: Final = (*_PROMPT, "shape")
_BURST: Final = (*_IDENTITY, "burst")
_SECOND_US: Final = 1_000_000
# Two primes; a number below the second, times the first, fits in 64 bits.
_FACTOR: Final = 1_000_003
_MODULUS: Final = 2_147_483_629


def find_bursts(calls: Calls, thresholds: Thresholds) -> Calls:
    """Return the calls of bursts, with `first`, the number of the burst's first call.

    `shape` is -1 if the hash covers the whole prompt; otherwise it is the length of the answer.
    """
    bursts = _split(_identify(calls, thresholds), thresholds).with_columns(
        nw.len().over(*_BURST).cast(nw.Int64).alias("calls"),
        nw.col("number").min().over(*_BURST).cast(nw.Int64).alias("first"),
        nw.col("number").max().over(*_BURST).cast(nw.Int64).alias("last"),
    )
    # Numbers have no gaps within a group, so their distance counts the group's calls in between.
    span = nw.col("last") - nw.col("first") + 1
    is_dense = nw.col("calls") >= span * (thresholds.d4_same_shape_min_share - QUANTILE_MARGIN)
    return bursts.filter(
        nw.col("calls") >= thresholds.d4_min_burst_calls, (nw.col("shape") < 0) | is_dense
    )


def _identify(calls: Calls, thresholds: Thresholds) -> Calls:
    """Return calls with enough repetitions, and their shape."""
    share = thresholds.d4_same_prompt_share - QUANTILE_MARGIN
    is_hashed, completion = nw.col("prefix") > 0, nw.col("completion_tokens").cast(nw.Int64)
    is_whole = (nw.col("prompt_tokens") <= thresholds.d4_whole_prompt_tokens) & (
        nw.col("alike") >= nw.col("hashed") * share
    )
    has_shape = nw.col("shape") >= thresholds.d4_same_shape_min_completion_tokens
    hashed = (
        calls.filter(is_hashed)
        .with_columns(
            nw.len().over(*_PROMPT).cast(nw.Int64).alias("alike"),
            nw.len().over(*_HASH).cast(nw.Int64).alias("hashed"),
        )
        .with_columns(
            nw.when(is_whole).then(nw.lit(-1)).otherwise(completion).cast(nw.Int64).alias("shape")
        )
        .drop("alike", "hashed")
    )
    others = calls.filter(~is_hashed).with_columns(completion.alias("shape")).filter(has_shape)
    least, most = thresholds.d4_min_burst_calls, _farthest(thresholds)
    if most:
        others = engine_of(calls).filter_near(others, _IDENTITY, most)
    hashed = hashed.filter((nw.col("shape") < 0) | has_shape)
    shaped = nw.concat([hashed, others], how="vertical")
    # By one number first, which few calls share by chance: four columns take twice as long.
    return _filter_repeated(
        _filter_repeated(shaped.with_columns(_mixed().alias("mixed")), ["mixed"], least),
        _IDENTITY,
        least,
    )


def _farthest(thresholds: Thresholds) -> int:
    """Return how far apart the nearest two calls of a dense burst can be; 0 for any distance.

    Of c calls that are a share s of all calls from the first to the last, the c - 1 distances add
    up to at most c / s - 1. Their mean is largest for the fewest calls.
    """
    calls = thresholds.d4_min_burst_calls
    share = thresholds.d4_same_shape_min_share - QUANTILE_MARGIN
    if calls < 2 or share <= 0:
        return 0
    return max(floor((calls / share - 1) / (calls - 1) + QUANTILE_MARGIN), 1)


def _mixed() -> nw.Expr:
    """Return a number that is equal for calls of one identity, and rarely for others."""
    identity = [nw.col(name).cast(nw.Int64) for name in _IDENTITY]
    mixed = nw.lit(0, nw.Int64)
    for column in identity:
        mixed = (mixed * _FACTOR + column + 1) % _MODULUS
    return mixed.cast(nw.Int32)


def _filter_repeated(calls: Calls, by: Sequence[str], least: float) -> Calls:
    counted = calls.with_columns(nw.len().over(*by).alias("calls"))
    return counted.filter(nw.col("calls") >= least)


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


def compare_answers(bursts: Calls, thresholds: Thresholds) -> Calls:
    """Say of each group's bursts of one prompt whether their answers and their sizes are equal.

    Adds `is_repeat` and `is_equal`, whether the call is not its burst's first and has its answer's
    length; `has_equal_answers` and `is_sampled` of the group; and `usual_size` of its bursts.
    """
    kind = ("group", "is_prompt")
    is_first, completion = nw.col("number") == nw.col("first"), nw.col("completion_tokens")
    is_equal = (nw.col("is_repeat") == 1) & (completion == nw.col("answer"))
    equal_share = thresholds.d4_equal_answers_share - QUANTILE_MARGIN
    size_share = thresholds.d4_sampling_share - QUANTILE_MARGIN
    has_equal_answers = nw.col("equal") >= nw.col("repeats") * equal_share
    is_sampled = (nw.col("bursts") >= thresholds.d4_sampling_min_bursts) & (
        nw.col("most_alike") >= nw.col("bursts") * size_share
    )
    usual = nw.when(nw.col("alike_sizes") == nw.col("most_alike")).then(nw.col("calls"))
    return (
        bursts.with_columns(
            (nw.col("shape") < 0).cast(nw.Int64).alias("is_prompt"),
            is_first.cast(nw.Int64).alias("bursts"),
            (~is_first).cast(nw.Int64).alias("is_repeat"),
            nw.when(is_first).then(completion).otherwise(nw.lit(-1)).alias("answer"),
        )
        .with_columns(
            nw.col("answer").max().over(*_BURST),
            nw.col("bursts").sum().over(*kind, "calls").cast(nw.Int64).alias("alike_sizes"),
        )
        .with_columns(is_equal.cast(nw.Int64).alias("is_equal"))
        .with_columns(
            nw.col("is_equal").sum().over(*kind).cast(nw.Int64).alias("equal"),
            nw.col("is_repeat").sum().over(*kind).cast(nw.Int64).alias("repeats"),
            nw.col("bursts").sum().over(*kind).cast(nw.Int64).alias("bursts"),
            nw.col("alike_sizes").max().over(*kind).alias("most_alike"),
        )
        .with_columns(
            has_equal_answers.alias("has_equal_answers"),
            is_sampled.alias("is_sampled"),
            usual.alias("usual_size"),
        )
        .with_columns(nw.col("usual_size").max().over(*kind))
    )
