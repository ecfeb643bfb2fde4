"""Prompts far larger than comparable work needs.

Costs you
---------
Input tokens that the answer did not need: whole documents where a passage would do, histories
that are never shortened, instructions that only ever grow.

Fires on
--------
Calls are compared with the calls of the whole audit whose answers are about as long (answer
lengths between two powers of two). A route's calls to one model, at least 10, are flagged where
one in ten of their prompts is over 3 times the usual (median) one, provided that the usual one
rests on at least 30 calls of at least 2 routes and the route itself is at most half of them. Each
of them that is over the usual length counts with half of the excess.

Stays quiet on
--------------
Audits of a single route (there is nothing to compare with), work that few others do, and routes
that make up most of their kind.

Do instead
----------
Send the passages that matter, summarise or cut old turns, drop unused tools and examples.

Sources
-------
A comparison within the audit; the half is an assumption, stated as such.
"""

from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import (
    ESTIMATED,
    MARGIN,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    Kind,
    flag,
)
from detectors.wording.figures import percent

_SHIFT: Final = 16
_STEP: Final = 1 << _SHIFT


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    prompt = nw.col("prompt_tokens")
    binned = calls.with_columns(_log2(nw.col("completion_tokens")).alias("bin"))
    bins = (
        binned.group_by("bin")
        .agg(
            prompt.median().alias("norm"),
            nw.len().alias("bin_calls"),
            nw.col("route").n_unique().alias("routes"),
        )
        .filter(
            nw.col("bin_calls") >= thresholds.d3_bin_min_calls,
            nw.col("routes") >= thresholds.d3_bin_min_routes,
        )
    )
    large = (
        binned.group_by("group", "bin")
        .agg(nw.len().alias("calls"), prompt.quantile(0.9, "linear").alias("p90"))
        .join(bins, on="bin", how="inner")
        .filter(
            nw.col("calls") >= thresholds.d3_min_calls,
            nw.col("p90") > nw.col("norm") * thresholds.d3_p90_multiple + QUANTILE_MARGIN,
            nw.col("calls") <= nw.col("bin_calls") * thresholds.d3_max_bin_share + MARGIN,
        )
        .select("group", "bin", "norm")
    )
    flagged = binned.join(large, on=["group", "bin"], how="inner").filter(prompt > nw.col("norm"))
    excess = (prompt - nw.col("norm")) * thresholds.d3_saving_share
    return flag(flagged, 0, excess * nw.col("input_usd_per_token"))


def _log2(tokens: nw.Expr) -> nw.Expr:
    """The exponent of the largest power of two in the count; 0 for an empty answer.

    A floating logarithm is off by a bit near large powers of two, so it is taken of the leading 16
    bits only, where the margin is far smaller than the distance to the next integer.
    """
    leading, exponent = tokens, nw.lit(0, nw.Int32)
    for _ in range(2):
        is_long = leading >= _STEP
        exponent = exponent + is_long.cast(nw.Int32) * _SHIFT
        leading = nw.when(is_long).then(leading // _STEP).otherwise(leading)
    fraction = (leading.clip(lower_bound=1).log(2) + MARGIN).floor()
    return exponent + fraction.cast(nw.Int32)


def advise(facts: Facts) -> str:
    return (
        f"Shorten the prompts of {facts.route} to {facts.model}: {facts.calls:,} of its "
        f"{facts.group_calls:,} calls sent more than comparable calls of this audit do (median of "
        f"these: {facts.median_prompt_tokens:,.0f} tokens for answers of "
        f"{facts.median_completion_tokens:,.0f}). Send the passages that matter, cut old turns and "
        f"unused tools. {percent(facts.thresholds.d3_saving_share * 100)} of the excess over the "
        "usual prompt is taken to be avoidable."
    )


DETECTOR = Detector(id="d3_context_bloat", kinds=(Kind("", ESTIMATED),), find=find, advise=advise)
