"""Long answers.

Answers of many pages that a program cuts down afterwards.

Costs you
---------
Output tokens, which cost several times as much as input tokens.

Fires on
--------
At least 5 calls of a route to one model with answers of at least 4,000 tokens. Savings: a quarter
of the cost of these calls.

Stays quiet on
--------------
Short answers, and routes with only a few long ones.

Do instead
----------
Request a summary, or a limit on the number of words.

Sources
-------
Made up for a test; a quarter is an assumption.
"""

import polars as pl

from detectors.contract import EvidenceColumn
from detectors.engine import Calls
from detectors.rules.detector import ESTIMATED, Detector, Facts, FlaggedCalls, Kind, flag
from detectors.wording.evidence import COST, SAVINGS, TIME

ANSWER = EvidenceColumn(field="completion_tokens", label="Answer length", format="count")
THRESHOLDS = {
    "d7_min_calls": 5,
    "d7_long_completion_tokens": 4_000,
    "d7_saving_share": 0.25,
}


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    long = calls.filter(pl.col("completion_tokens") >= thresholds.d7_long_completion_tokens)
    often = long.with_columns(pl.len().over("group").cast(pl.Int64).alias("calls"))
    flagged = often.filter(pl.col("calls") >= thresholds.d7_min_calls)
    return flag(flagged, 0, pl.col("cost_usd") * thresholds.d7_saving_share)


def advise(flagged: FlaggedCalls) -> str:
    return (
        f"Request shorter answers on {flagged.route}: {flagged.calls:,} calls to {flagged.model} "
        f"returned {flagged.median_completion_tokens:,.0f} tokens (median)."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    share = flagged.share("d7_saving_share")
    return f"{share} × {flagged.cost}, the cost of {flagged.counted} = {flagged.saving}"


DETECTOR = Detector(
    id="d7_long_answers",
    kinds=(Kind("", ESTIMATED),),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, ANSWER, COST, SAVINGS),
)
