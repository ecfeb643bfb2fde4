"""Context bloat.

Prompts that have grown far beyond what the route needs.

Costs you
---------
Input tokens that the answer didn't need: whole documents, histories that are never shortened,
instructions that only grow.

Fires on
--------
Calls are compared with all calls of the audit whose answers are about as long (between two powers
of two); the norm is the median of their prompts. At least 10 calls of a route to one model are
large if one in ten of their prompts is over 3 times the norm, provided that the norm covers at
least 30 calls of at least 2 routes, of which the route itself makes up at most half. Two kinds.
`outgrown`: the route's own median prompt is at most the norm, so it usually works with normal
prompts. Savings: half of the tokens above the norm; the range is from nothing to 8 times that.
`large_prompts`: its median is above the norm; no savings are claimed.

Stays quiet on
--------------
Audits of a single route, kinds of work that few other routes do, and routes that do most of their
kind of work. Counts can't tell whether a route's work differs.

Do instead
----------
Send only the passages that matter, summarize or cut old turns, and drop unused tools and examples.

Sources
-------
A comparison within the audit; that half can be cut is an assumption.
"""

import polars as pl

from detectors.engine import Calls, join_numbered
from detectors.rules.detector import (
    ESTIMATED,
    INFORMATIONAL,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    FlaggedCalls,
    Kind,
    flag,
    per_mtok,
)
from detectors.rules.norms import MOST_BINS, bin_of, exponent_of
from detectors.wording.evidence import BILLED, COST, EXCESS, NORM, SAVINGS, TIME

_OUTGROWN, _LARGE = range(2)


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds, prompt = facts.thresholds, pl.col("prompt_tokens")
    # A group is of one log, so that its number and the exponent make the bin of a group.
    binned = calls.with_columns(bin_of(calls).alias("bin")).with_columns(
        (pl.col("group").cast(pl.Int64) * MOST_BINS + exponent_of(pl.col("bin"))).alias("own_bin")
    )
    norm, share = pl.col("norm"), thresholds.d3_max_bin_share + QUANTILE_MARGIN
    # Quantiles take most of the time, and few groups have any prompt that is long enough.
    candidates = (
        binned.group_by("own_bin")
        .agg(pl.col("bin").first(), pl.len().alias("calls"), prompt.max().alias("longest"))
        .join(facts.norms.lazy(), on="bin", how="inner")
        .filter(
            pl.col("calls") >= thresholds.d3_min_calls,
            pl.col("longest") > norm * thresholds.d3_p90_multiple + QUANTILE_MARGIN,
            pl.col("calls") <= pl.col("bin_calls") * share,
        )
        .select("own_bin", "norm")
    )
    large = (
        join_numbered(binned.select("own_bin", "prompt_tokens"), candidates, "own_bin")
        .group_by("own_bin")
        .agg(
            norm.max(),
            prompt.median().alias("median"),
            prompt.quantile(0.9, "linear").alias("p90"),
        )
        .filter(pl.col("p90") > norm * thresholds.d3_p90_multiple + QUANTILE_MARGIN)
        .select("own_bin", "norm", (pl.col("median") <= norm + QUANTILE_MARGIN).alias("usual"))
    )
    flagged = join_numbered(binned, large, "own_bin").filter(prompt > norm)
    excess = (prompt - norm) * pl.col("input_usd_per_token") * thresholds.d3_saving_share
    saving = pl.when(pl.col("usual")).then(excess).otherwise(pl.lit(0.0))
    return flag(
        flagged,
        pl.when(pl.col("usual")).then(pl.lit(_OUTGROWN)).otherwise(pl.lit(_LARGE)),
        saving,
        low_usd=saving * thresholds.d3_low_share,
        high_usd=saving * thresholds.d3_high_multiple,
        norm_tokens=norm,
        basis=exponent_of(pl.col("bin")),
    )


THRESHOLDS = {
    "d3_min_calls": 10,
    "d3_p90_multiple": 3.0,
    "d3_bin_min_calls": 30,
    "d3_bin_min_routes": 2,
    "d3_max_bin_share": 0.5,
    "d3_saving_share": 0.5,
    "d3_low_share": 0.0,
    "d3_high_multiple": 8.0,
}


def advise(flagged: FlaggedCalls) -> str:
    lengths = f"{2**flagged.smallest_basis:,.0f} to {2 ** (flagged.largest_basis + 1) - 1:,.0f}"
    prompt, norm = flagged.median_prompt_tokens, flagged.median_norm_tokens
    opening = (
        f"Shorten the prompts of {flagged.route} to {flagged.model}: {flagged.calls_of_group} "
        f"sent {prompt:,.0f} tokens (median), "
        f"{prompt / max(norm, 1):,.1f} times the {norm:,.0f} of comparable calls in this audit "
        f"(answers of {lengths} tokens). "
    )
    if flagged.confidence == INFORMATIONAL:
        return opening + "Counts can't tell whether the work differs, so no savings are claimed."
    return opening + (
        "The route itself usually sends no more than that. Send only the passages that matter, and "
        f"cut old turns and unused tools. {flagged.share('d3_saving_share')} of the tokens above "
        "the norm are counted as avoidable."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    return (
        f"{flagged.share('d3_saving_share')} × (prompt tokens − {flagged.median_norm_tokens:,.0f}, "
        "the median of comparable calls) × input rate "
        f"({per_mtok(flagged.input_usd_per_mtok)}), over {flagged.counted} that cost "
        f"{flagged.cost}: {flagged.saving}"
    )


DETECTOR = Detector(
    id="d3_context_bloat",
    kinds=(Kind("outgrown", ESTIMATED), Kind("large_prompts", INFORMATIONAL)),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, NORM, EXCESS, COST, SAVINGS),
)
