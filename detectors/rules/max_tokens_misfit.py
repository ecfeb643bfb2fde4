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

from typing import Final

import polars as pl

from detectors.contract import Thresholds
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
_SECOND_US: Final = 1_000_000
_HASH: Final = ("group", "prefix")


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
    oversized_calls = join_numbered(capped, oversized.select("group"), "group")
    cut_groups = join_numbered(calls, cut.select("group"), "group")
    kinds = [
        flag_cut(cut_groups, thresholds, again=_AGAIN, cut=_CUT),
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


def is_cut_off(thresholds: Thresholds) -> pl.Expr:
    cap = pl.col("declared_max_tokens")
    return (cap > thresholds.d5_truncated_above_tokens) & (pl.col("completion_tokens") >= cap)


def flag_cut(calls: Calls, thresholds: Thresholds, *, again: int, cut: int) -> Calls:
    """Flag the cut-off calls as one of two kinds: their group asks them again, or does not.

    `calls` are all calls of the groups. The basis is the counted share of a call asked again; in
    groups of the second kind, 1.
    """
    marked = _mark_asked_again(calls, thresholds).filter(pl.col("declared_max_tokens") > 0)
    capped = marked.with_columns(is_cut_off(thresholds).cast(pl.Int64).alias("is_cut"))
    cut_calls = capped.filter(pl.col("is_cut") == 1).join(
        _find_excess(capped, thresholds), on="group", how="inner"
    )
    share, asked_again = pl.col("share"), pl.col("asked_again")
    prompt_usd = pl.col("prompt_tokens") * pl.col("input_usd_per_token")
    wasted = pl.when(pl.col("is_thrown_away")).then(pl.col("cost_usd")).otherwise(prompt_usd)
    counted = pl.when(share > 0).then(share).otherwise(pl.lit(1.0))
    saving = wasted * asked_again * share
    return flag(
        cut_calls,
        pl.when(share > 0).then(pl.lit(again)).otherwise(pl.lit(cut)),
        saving,
        low_usd=saving * thresholds.d5_truncated_low_share,
        high_usd=saving * thresholds.d5_truncated_high_multiple,
        basis=counted * asked_again,
    )


def _mark_asked_again(calls: Calls, thresholds: Thresholds) -> Calls:
    """Add `asked_again`, and `is_thrown_away`, whether the answer was not continued."""
    # Among hashed calls the next one has the same hash; for others it is any of the group.
    following = []
    for name in ("at_us", "prompt_tokens"):
        by_hash = pl.col(name).shift(-1).over(*_HASH, order_by="number")
        by_group = pl.col(name).shift(-1).over("group", order_by="number")
        following += [by_hash.alias(f"hash_{name}"), by_group.alias(f"group_{name}")]
    next_us, next_prompt = (
        pl.when(pl.col("prefix") > 0)
        .then(pl.col(f"hash_{name}"))
        .otherwise(pl.col(f"group_{name}"))
        .alias(f"next_{name}")
        for name in ("at_us", "prompt_tokens")
    )
    prompt, completion = pl.col("prompt_tokens"), pl.col("completion_tokens")
    after, longer = pl.col("next_at_us"), pl.col("next_prompt_tokens")
    asked_again = (
        (after - pl.col("at_us") <= thresholds.d5_again_seconds * _SECOND_US)
        & (longer >= prompt)
        & (longer <= prompt + completion + thresholds.d5_again_tokens)
    )
    is_thrown_away = longer < prompt + completion * thresholds.d5_thrown_away_share
    return (
        calls.with_columns(*following)
        .with_columns(next_us, next_prompt)
        .with_columns(
            asked_again.fill_null(value=False).cast(pl.Int64).alias("asked_again"),
            is_thrown_away.fill_null(value=False).alias("is_thrown_away"),
        )
    )


def _find_excess(capped: Calls, thresholds: Thresholds) -> Calls:
    """Return each group's `share` of asked-again cut calls that other calls don't explain.

    It is 0 where cut calls are hardly asked again more often than others: on dense traffic,
    something always follows.
    """
    cut, again = pl.col("is_cut"), pl.col("asked_again")
    cut_share = pl.col("cut_again") / pl.col("cut")
    others = (pl.col("calls") - pl.col("cut")).clip(lower_bound=1)
    other_share = (pl.col("again") - pl.col("cut_again")) / others
    more = pl.col("cut_share") - pl.col("other_share")
    is_more = (more >= thresholds.d5_again_min_excess_share - QUANTILE_MARGIN) & (more > 0)
    return (
        capped.with_columns((cut * again).alias("cut_again"))
        .group_by("group")
        .agg(
            pl.len().alias("calls"),
            cut.sum().alias("cut"),
            again.sum().alias("again"),
            pl.col("cut_again").sum(),
        )
        .with_columns(pl.col("calls", "cut", "again", "cut_again").cast(pl.Int64))
        .with_columns(cut_share.alias("cut_share"), other_share.alias("other_share"))
        .with_columns(
            pl.when(is_more).then(more / pl.col("cut_share")).otherwise(pl.lit(0.0)).alias("share")
        )
        .select("group", "share")
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
