"""Context bloat.

Prompts that have grown far beyond what the route needs.

Costs you
---------
Input tokens that the answer did not need: whole documents instead of passages, histories that are
never shortened, instructions that only grow.

Fires on
--------
Calls are compared with all calls of the audit whose answers are about as long (answer lengths
between two powers of two). At least 10 calls of a route to one model are flagged if one in ten of
their prompts is over 3 times the median, provided that the median covers at least 30 calls of at
least 2 routes, of which the route itself makes up at most half. Savings: half of the tokens above
the median.

Stays quiet on
--------------
Audits of a single route (nothing to compare with), kinds of work that few other routes do, and
routes that make up most of their kind.

Do instead
----------
Send the passages that matter, summarize or cut old turns, drop unused tools and examples.

Sources
-------
A comparison within the audit; counting half of the excess is an assumption.
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
    FlaggedCalls,
    Kind,
    flag,
    per_mtok,
)
from detectors.wording.evidence import BILLED, COST, SAVINGS, TIME

_SHIFT: Final = 16
_STEP: Final = 1 << _SHIFT
_MOST_BINS: Final = 64


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    prompt = nw.col("prompt_tokens")
    # Calls of different logs are never compared.
    exponent = _log2(nw.col("completion_tokens"))
    binned = calls.with_columns((nw.col("log") * _MOST_BINS + exponent).alias("bin"))
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
    """Return the exponent of the largest power of two in the count; 0 for an empty answer.

    A floating-point logarithm is off by a bit near large powers of two, so only the leading 16 bits
    are used, where the margin is far smaller than the distance to the next integer.
    """
    leading, exponent = tokens, nw.lit(0, nw.Int32)
    for _ in range(2):
        is_long = leading >= _STEP
        exponent = exponent + is_long.cast(nw.Int32) * _SHIFT
        leading = nw.when(is_long).then(leading // _STEP).otherwise(leading)
    fraction = (leading.clip(lower_bound=1).log(2) + MARGIN).floor()
    return exponent + fraction.cast(nw.Int32)


THRESHOLDS = {
    "d3_min_calls": 10,
    "d3_p90_multiple": 3.0,
    "d3_bin_min_calls": 30,
    "d3_bin_min_routes": 2,
    "d3_max_bin_share": 0.5,
    "d3_saving_share": 0.5,
}


def advise(flagged: FlaggedCalls) -> str:
    return (
        f"Shorten the prompts of {flagged.route} to {flagged.model}: {flagged.calls:,} of its "
        f"{flagged.group_calls:,} calls sent more than comparable calls in this audit (median of "
        f"these: {flagged.median_prompt_tokens:,.0f} tokens for answers of "
        f"{flagged.median_completion_tokens:,.0f}). Send the passages that matter, cut old turns "
        f"and unused tools. {flagged.share('d3_saving_share')} of the tokens above the median of "
        "comparable calls are counted as avoidable."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    return (
        f"{flagged.share('d3_saving_share')} × (prompt tokens − median of comparable calls) × "
        f"input rate ({per_mtok(flagged.input_usd_per_mtok)}), over {flagged.counted} that cost "
        f"{flagged.cost}: {flagged.saving}"
    )


DETECTOR = Detector(
    id="d3_context_bloat",
    kinds=(Kind("", ESTIMATED),),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, COST, SAVINGS),
)
