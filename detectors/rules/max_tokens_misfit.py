"""max_tokens misfit.

Answers cut off at their limit, or limits far above any answer.

Costs you
---------
An answer that is cut off and requested again is paid for twice. A limit far above every answer
costs nothing today, but does not limit a runaway answer either.

Fires on
--------
Two kinds. `truncated`: at least 5 calls of a route to one model, and at least 2% of those that
declare a limit, reached it. Limits up to 16 tokens are ignored. A call was asked again if the next
call (of its prefix hash, if it has one) comes within 2 minutes with a prompt at least as long and
at most 512 tokens longer than prompt and answer together. Savings are claimed if cut-off calls were
asked again at least 20 percentage points more often than the others: the cost of a call whose
answer was thrown away, or only the prompt's if the answer was continued, times the share of repeats
that the others don't explain; the range is from half to 3.5 times that. `oversized_cap`: at least
20 calls declare a limit, and the median limit is at least 10 times the 95th percentile of the
answers; no savings are claimed.

Stays quiet on
--------------
Calls without a declared limit, and tiny limits, which classifiers set on purpose. Teasers that are
cut off on purpose and never asked again are listed without savings.

Do instead
----------
Truncated: raise the limit, or request shorter answers in the prompt. Oversized: lower the limit to
slightly more than the longest useful answer.

Sources
-------
The declared limits and the billed counts; that a matching next call is a retry is an assumption.
"""

import polars as pl

from detectors.engine import Calls
from detectors.rules.asked_again import flag_cut, is_cut_off
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
)
from detectors.wording.evidence import BILLED, COST, MAX_TOKENS, SAVINGS, TIME
from detectors.wording.figures import percent

THRESHOLDS = {
    "d5_truncated_above_tokens": 16,
    "d5_truncated_min_calls": 5,
    "d5_truncated_min_share": 0.02,
    "d5_again_seconds": 120.0,
    "d5_again_tokens": 512,
    "d5_again_min_excess_share": 0.2,
    "d5_thrown_away_share": 0.5,
    "d5_truncated_low_share": 0.5,
    "d5_truncated_high_multiple": 3.5,
    "d5_oversized_min_calls": 20,
    "d5_oversized_multiple": 10.0,
    "d5_oversized_quantile": 0.95,
}
_AGAIN, _CUT, _OVERSIZED = range(3)


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    cap, completion = pl.col("declared_max_tokens"), pl.col("completion_tokens")
    is_cut = is_cut_off(thresholds).cast(pl.Int64).alias("is_cut")
    capped = calls.filter(cap > 0).with_columns(is_cut)
    groups = capped.group_by("group").agg(
        pl.len().alias("calls"),
        pl.col("is_cut").sum().alias("cut"),
        cap.median().alias("median_cap"),
        completion.quantile(thresholds.d5_oversized_quantile, "linear").alias("long_answer"),
    )
    share = thresholds.d5_truncated_min_share - QUANTILE_MARGIN
    cut = groups.filter(
        pl.col("cut") >= thresholds.d5_truncated_min_calls,
        pl.col("cut") >= pl.col("calls") * share,
    )
    answer = pl.col("long_answer") * thresholds.d5_oversized_multiple
    oversized = groups.filter(
        pl.col("calls") >= thresholds.d5_oversized_min_calls,
        pl.col("median_cap") >= answer - QUANTILE_MARGIN,
    )
    oversized_calls = capped.join(oversized, on="group", how="semi")
    kinds = [
        flag_cut(calls.join(cut, on="group", how="semi"), thresholds, again=_AGAIN, cut=_CUT),
        flag(oversized_calls, _OVERSIZED, pl.lit(0.0)),
    ]
    return pl.concat(kinds, how="vertical")


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
    cut = (
        f"{flagged.calls_of_group} to {model} were cut off at their limit (median "
        f"{flagged.median_declared_max_tokens:,.0f} tokens)"
    )
    again = flagged.total_basis / (flagged.largest_basis or 1)
    if flagged.confidence == INFORMATIONAL:
        return (
            f"Check max_tokens on {route}: {cut}. A call that looks like the same question "
            f"followed {again:,.0f} of them, hardly more often than calls that were not cut off, "
            "so no savings are claimed."
        )
    return (
        f"Raise max_tokens on {route}, or request shorter answers: {cut}, and {again:,.0f} of "
        f"them were retried within {flagged.thresholds.d5_again_seconds:g} seconds, far more often "
        "than other calls."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    again = flagged.total_basis / (flagged.largest_basis or 1)
    return (
        f"Cost of {again:,.0f} calls asked again (only the prompt's where the answer was "
        f"continued) × {percent(flagged.largest_basis * 100)}, the share that is not explained by "
        f"how often other calls are followed by a similar one: {flagged.saving}"
    )


DETECTOR = Detector(
    id="d5_max_tokens_misfit",
    kinds=(
        Kind("truncated", ESTIMATED),
        Kind("truncated", INFORMATIONAL),
        Kind("oversized_cap", INFORMATIONAL),
    ),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, MAX_TOKENS, COST, SAVINGS),
)
