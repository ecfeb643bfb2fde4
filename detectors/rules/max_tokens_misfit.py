"""A `max_tokens` that cuts answers off, or one that caps nothing.

Costs you
---------
A cut answer is often asked again, so part of what it cost buys nothing. A cap far above every
answer costs nothing by itself, but it caps nothing either when a model runs away.

Fires on
--------
Two kinds. `truncated`: at least 5 calls of a route to one model, and at least 2% of those that
declare a cap, reached it; each counts with half of its cost. Caps up to 16 tokens are left alone.
`oversized_cap`: at least 20 calls declare a cap, and the median cap is at least 10 times the 95th
percentile of the answers; no dollars are claimed.

Stays quiet on
--------------
Calls without a declared cap, and tiny caps: those are deliberate settings of classifiers.

Do instead
----------
Truncated: raise the cap, or ask for shorter answers in the prompt. Oversized: lower the cap to a
little above the longest useful answer.

Sources
-------
The declared caps and the billed answer lengths; the half is an assumption, stated as such.
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

TRUNCATED, OVERSIZED = range(2)


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    cap, completion = nw.col("declared_max_tokens"), nw.col("completion_tokens")
    is_cut = (cap > thresholds.d5_truncated_above_tokens) & (completion >= cap)
    capped = calls.filter(cap > 0).with_columns(is_cut.cast(nw.Int64).alias("is_cut"))
    groups = capped.group_by("group").agg(
        nw.len().alias("calls"),
        nw.col("is_cut").sum().alias("cut"),
        cap.median().alias("median_cap"),
        completion.quantile(thresholds.d5_oversized_quantile, "linear").alias("long_answer"),
    )
    cut = groups.filter(
        nw.col("cut") >= thresholds.d5_truncated_min_calls,
        nw.col("cut") >= nw.col("calls") * thresholds.d5_truncated_min_share - MARGIN,
    )
    answer = nw.col("long_answer") * thresholds.d5_oversized_multiple
    oversized = groups.filter(
        nw.col("calls") >= thresholds.d5_oversized_min_calls,
        nw.col("median_cap") >= answer - QUANTILE_MARGIN,
    )
    cut_calls = capped.filter(nw.col("is_cut") == 1).join(cut, on="group", how="semi")
    oversized_calls = capped.join(oversized, on="group", how="semi")
    kinds = [
        flag(cut_calls, TRUNCATED, nw.col("cost_usd") * thresholds.d5_truncated_saving_share),
        flag(oversized_calls, OVERSIZED, nw.lit(0.0)),
    ]
    return nw.concat(kinds, how="vertical")


def advise(facts: Facts) -> str:
    if facts.kind == "oversized_cap":
        return (
            f"Lower max_tokens on {facts.route}: {facts.calls:,} calls to {facts.model} allow "
            f"{facts.median_declared_max_tokens:,.0f} tokens (median) where answers take "
            f"{facts.median_completion_tokens:,.0f} (median; longest "
            f"{facts.largest_completion_tokens:,}). It saves nothing today, but it bounds what one "
            "runaway answer can cost."
        )
    return (
        f"Raise max_tokens on {facts.route}, or ask for shorter answers: {facts.calls:,} of its "
        f"{facts.group_calls:,} calls to {facts.model} were cut off at their cap (median "
        f"{facts.median_declared_max_tokens:,.0f} tokens). A cut answer is often asked again, so "
        f"{percent(facts.thresholds.d5_truncated_saving_share * 100)} of what these calls cost is "
        "taken to be lost."
    )


DETECTOR = Detector(
    id="d5_max_tokens_misfit",
    kinds=(Kind("truncated", ESTIMATED), Kind("oversized_cap", INFORMATIONAL)),
    find=find,
    advise=advise,
)
