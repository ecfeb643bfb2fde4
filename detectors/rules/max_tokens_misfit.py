"""max_tokens misfit.

Answers cut off at their limit, or limits far above any answer.

Costs you
---------
An answer that is cut off is often requested again, so part of its cost buys nothing. A limit far
above every answer costs nothing today, but does not limit a runaway answer either.

Fires on
--------
Two kinds. `truncated`: at least 5 calls of a route to one model, and at least 2% of those that
declare a limit, reached it. Limits up to 16 tokens are ignored. Savings: half of the cost of these
calls. `oversized_cap`: at least 20 calls declare a limit, and the median limit is at least 10 times
the 95th percentile of the answers; no savings are claimed.

Stays quiet on
--------------
Calls without a declared limit, and tiny limits, which classifiers set on purpose.

Do instead
----------
Truncated: raise the limit, or request shorter answers in the prompt. Oversized: lower the limit to
slightly more than the longest useful answer.

Sources
-------
The declared limits and the billed answer lengths; counting half of the cost is an assumption.
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
    FlaggedCalls,
    Kind,
    flag,
)
from detectors.wording.evidence import BILLED, COST, MAX_TOKENS, SAVINGS, TIME

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


THRESHOLDS = {
    "d5_truncated_above_tokens": 16,
    "d5_truncated_min_calls": 5,
    "d5_truncated_min_share": 0.02,
    "d5_truncated_saving_share": 0.5,
    "d5_oversized_min_calls": 20,
    "d5_oversized_multiple": 10.0,
    "d5_oversized_quantile": 0.95,
}


def advise(flagged: FlaggedCalls) -> str:
    route, model = flagged.route, flagged.model
    if flagged.kind == "oversized_cap":
        return (
            f"Lower max_tokens on {route}: {flagged.calls:,} calls to {model} allow "
            f"{flagged.median_declared_max_tokens:,.0f} tokens (median) while answers have "
            f"{flagged.median_completion_tokens:,.0f} (median; longest "
            f"{flagged.largest_completion_tokens:,}). It saves nothing today, but limits what one "
            "runaway answer can cost."
        )
    return (
        f"Raise max_tokens on {route}, or request shorter answers: {flagged.calls:,} of its "
        f"{flagged.group_calls:,} calls to {model} were cut off at their limit (median "
        f"{flagged.median_declared_max_tokens:,.0f} tokens). Cut-off answers are often requested "
        f"again, so {flagged.share('d5_truncated_saving_share')} of what these calls cost is "
        "counted as avoidable."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    share = flagged.share("d5_truncated_saving_share")
    return f"{share} × {flagged.cost}, the cost of {flagged.counted} = {flagged.saving}"


DETECTOR = Detector(
    id="d5_max_tokens_misfit",
    kinds=(Kind("truncated", ESTIMATED), Kind("oversized_cap", INFORMATIONAL)),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, MAX_TOKENS, COST, SAVINGS),
)
