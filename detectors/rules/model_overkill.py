"""Oversized model.

Short answers from a flagship model.

Costs you
---------
A flagship's rates on calls whose answers are too short to need one: labels, yes or no, a date
extracted from a text. The next cheaper model usually costs 20% to 50% as much.

Fires on
--------
At least 5 calls of a route to one model with a cheaper model in its family, where the median answer
has at most 150 tokens and the 90th percentile at most 400. Savings: for each call with an answer of
at most 400 tokens, the difference to the cheaper model's rates on that day, with the same cache
use.

Stays quiet on
--------------
Routes with long answers, the cheapest model of a family, and days on which the cheaper model was
not cheaper for both input and output. It cannot see how hard a short answer was.

Do instead
----------
Run your own quality evaluation of the route with the cheaper model, and switch if it passes.

Sources
-------
The model providers' own line-ups, as cited in `detectors/prices/ladder.toml`.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import (
    ESTIMATED,
    MARGIN,
    QUANTILE_MARGIN,
    Detector,
    FlaggedCalls,
    Kind,
    flag,
)
from detectors.wording.evidence import BILLED, COST, SAVINGS, TIME
from detectors.wording.figures import fine_usd, rate


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    completion = nw.col("completion_tokens")
    short_groups = (
        calls.group_by("group")
        .agg(
            nw.len().alias("calls"),
            completion.median().alias("median"),
            completion.quantile(0.9, "linear").alias("p90"),
        )
        .filter(
            nw.col("calls") >= thresholds.d1_min_calls,
            nw.col("median") <= thresholds.d1_median_completion_tokens + QUANTILE_MARGIN,
            nw.col("p90") <= thresholds.d1_p90_completion_tokens + QUANTILE_MARGIN,
        )
    )
    short_calls = calls.filter(
        completion <= thresholds.d1_max_completion_tokens, nw.col("cheaper_saving_usd") > MARGIN
    )
    flagged = short_calls.join(short_groups, on="group", how="semi")
    return flag(flagged, 0, nw.col("cheaper_saving_usd"))


THRESHOLDS = {
    "d1_min_calls": 5,
    "d1_median_completion_tokens": 150,
    "d1_p90_completion_tokens": 400,
    "d1_max_completion_tokens": 400,
}


def advise(flagged: FlaggedCalls) -> str:
    cheaper = flagged.cheaper_model
    own = f"{rate(flagged.input_usd_per_mtok)} in and {rate(flagged.output_usd_per_mtok)} out"
    other_in, other_out = flagged.cheaper_input_usd_per_mtok, flagged.cheaper_output_usd_per_mtok
    return (
        f"Try {cheaper} instead of {flagged.model} on {flagged.route}: {flagged.calls:,} of its "
        f"{flagged.group_calls:,} calls got short answers (median "
        f"{flagged.median_completion_tokens:,.0f} tokens). A million tokens now cost {own}, and "
        f"{rate(other_in)} and {rate(other_out)} with {cheaper}. Token counts don't show whether "
        "its answers are good enough: run your own quality evaluation before you switch."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    rest = fine_usd(flagged.cost_usd - flagged.saving_usd)
    return (
        f"Cost of {flagged.counted}, minus their cost at the rates of {flagged.cheaper_model}: "
        f"{flagged.cost} − {rest} = {flagged.saving}"
    )


DETECTOR = Detector(
    id="d1_model_overkill",
    kinds=(Kind("", ESTIMATED),),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, COST, SAVINGS),
    suggests_cheaper_model=True,
)
