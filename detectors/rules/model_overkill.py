"""Oversized model.

Short answers from a flagship model.

Costs you
---------
The rates of a model that its own provider has replaced with a newer, cheaper one; or a flagship's
rates for answers too short to need one: a label, yes or no, a date extracted from a text.

Fires on
--------
At least 5 calls of a route to one model. Two kinds. `legacy_model`: the provider has replaced the
model with a newer one of at least the same class that is cheaper for input and output; answers of
any length. `short_answers`: otherwise, if the family has a cheaper model, the median answer has at
most 150 tokens and the 90th percentile at most 400 (without reasoning); only calls with answers of
at most 400 tokens count. Savings: for each call that fits in the target's context window, its cost
minus its cost at the target's rates, with the same cache use and service tier, if that is positive.
All of it is conditional: it depends on your own evaluation, so the range begins at $0. Its upper
end for short answers uses the limits 225 and 600.

Stays quiet on
--------------
Models without a successor or a cheaper model at the same host, calls that don't fit in the target's
context window, and times when the target was not cheaper. It can't see how hard an answer was.

Do instead
----------
Run your own quality evaluation of the route with the suggested model, and switch if it passes.

Sources
-------
The model providers' own lineups and deprecation pages, as cited in `detectors/prices/data`.
"""

import polars as pl

from detectors.engine import Calls, join_numbered
from detectors.rules.columns import answer_tokens
from detectors.rules.detector import (
    CONDITIONAL,
    MARGIN,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
)
from detectors.wording.evidence import BILLED, COST, SAVINGS, TIME
from detectors.wording.figures import fine_usd, rate

THRESHOLDS = {
    "d1_min_calls": 5,
    "d1_median_completion_tokens": 150,
    "d1_p90_completion_tokens": 400,
    "d1_max_completion_tokens": 400,
    "d1_high_median_completion_tokens": 225,
    "d1_high_p90_completion_tokens": 600,
    "d1_high_max_completion_tokens": 600,
}
# The last kind is no finding: what short answers would add with the higher limits.
_LEGACY, _SHORT, _LONGER = range(3)
_LADDER, _SUCCESSOR = 1, 2  # values of `target_kind`


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    answer, median, p90 = pl.col("answer"), pl.col("median"), pl.col("p90")
    targeted = calls.filter(pl.col("target_kind") > 0).with_columns(
        answer_tokens(calls).alias("answer")
    )
    groups = (
        targeted.group_by("group")
        .agg(
            pl.len().alias("calls"),
            answer.median().alias("median"),
            answer.quantile(0.9, "linear").alias("p90"),
        )
        .filter(pl.col("calls") >= thresholds.d1_min_calls)
    )
    is_short, is_longer = (
        (median <= getattr(thresholds, f"d1_{limits}median_completion_tokens") + QUANTILE_MARGIN)
        & (p90 <= getattr(thresholds, f"d1_{limits}p90_completion_tokens") + QUANTILE_MARGIN)
        for limits in ("", "high_")
    )
    kind = (
        pl.when(pl.col("target_kind") == _SUCCESSOR)
        .then(pl.lit(_LEGACY))
        .when(is_short & (answer <= thresholds.d1_max_completion_tokens))
        .then(pl.lit(_SHORT))
        .when((is_short | is_longer) & (answer <= thresholds.d1_high_max_completion_tokens))
        .then(pl.lit(_LONGER))
        .otherwise(pl.lit(-1))
    )
    counted = (
        join_numbered(
            targeted.filter(pl.col("target_saving_usd") > MARGIN),
            groups.select("group", "median", "p90"),
            "group",
        )
        .with_columns(kind.alias("kind"))
        .filter(pl.col("kind") >= 0)
    )
    saving = pl.col("target_saving_usd")
    stated = pl.when(pl.col("kind") == _LONGER).then(pl.lit(0.0)).otherwise(saving)
    return flag(counted, pl.col("kind"), stated, low_usd=pl.lit(0.0), high_usd=saving)


def advise(flagged: FlaggedCalls) -> str:
    target = flagged.cheaper_model
    own = f"{rate(flagged.input_usd_per_mtok)} in and {rate(flagged.output_usd_per_mtok)} out"
    other_in, other_out = flagged.cheaper_input_usd_per_mtok, flagged.cheaper_output_usd_per_mtok
    reason = f"got short answers (median {flagged.median_completion_tokens:,.0f} tokens)"
    if flagged.kind == "legacy_model":
        reason = f"used this model, which its provider has replaced with {target}"
    return (
        f"Try {target} instead of {flagged.model} on {flagged.route}: {flagged.calls_of_group} "
        f"{reason}. A million tokens now cost {own}; with {target}, {rate(other_in)} and "
        f"{rate(other_out)}. Token counts don't show whether its answers are good enough: run your "
        "own quality evaluation before you switch."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    rest = fine_usd(flagged.cost_usd - flagged.saving_usd)
    return (
        f"Cost of {flagged.counted}, minus their cost at the rates of {flagged.cheaper_model}: "
        f"{flagged.cost} − {rest} = {flagged.saving}"
    )


DETECTOR = Detector(
    id="d1_model_overkill",
    kinds=(
        Kind("legacy_model", CONDITIONAL),
        Kind("short_answers", CONDITIONAL),
        Kind("short_answers", CONDITIONAL, is_reported=False),
    ),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, COST, SAVINGS),
    suggests_cheaper_model=True,
)
