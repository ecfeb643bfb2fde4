"""Flags answers that were cut off, and asked again: a similar call follows within minutes."""

from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import QUANTILE_MARGIN, flag

_SECOND_US: Final = 1_000_000
_HASH: Final = ("group", "prefix")


def is_cut_off(thresholds: Thresholds) -> nw.Expr:
    cap = nw.col("declared_max_tokens")
    return (cap > thresholds.d5_truncated_above_tokens) & (nw.col("completion_tokens") >= cap)


def flag_cut(calls: Calls, thresholds: Thresholds, *, again: int, cut: int) -> Calls:
    """Flag the cut-off calls as one of two kinds: their group asks them again, or does not.

    `calls` are all calls of the groups. The basis is the counted share of a call asked again; in
    groups of the second kind, 1.
    """
    marked = _mark_asked_again(calls, thresholds).filter(nw.col("declared_max_tokens") > 0)
    capped = marked.with_columns(is_cut_off(thresholds).cast(nw.Int64).alias("is_cut"))
    cut_calls = capped.filter(nw.col("is_cut") == 1).join(
        _find_excess(capped, thresholds), on="group", how="inner"
    )
    share, asked_again = nw.col("share"), nw.col("asked_again")
    prompt_usd = nw.col("prompt_tokens") * nw.col("input_usd_per_token")
    wasted = nw.when(nw.col("is_thrown_away")).then(nw.col("cost_usd")).otherwise(prompt_usd)
    counted = nw.when(share > 0).then(share).otherwise(nw.lit(1.0))
    saving = wasted * asked_again * share
    return flag(
        cut_calls,
        nw.when(share > 0).then(nw.lit(again)).otherwise(nw.lit(cut)),
        saving,
        low_usd=saving * thresholds.d5_truncated_low_share,
        basis=counted * asked_again,
    )


def _mark_asked_again(calls: Calls, thresholds: Thresholds) -> Calls:
    """Add `asked_again`, and `is_thrown_away`, whether the answer was not continued."""
    # Among hashed calls the next one has the same hash; for others it is any of the group.
    following = []
    for name in ("at_us", "prompt_tokens"):
        by_hash = nw.col(name).shift(-1).over(*_HASH, order_by="number")
        by_group = nw.col(name).shift(-1).over("group", order_by="number")
        following += [by_hash.alias(f"hash_{name}"), by_group.alias(f"group_{name}")]
    next_us, next_prompt = (
        nw.when(nw.col("prefix") > 0)
        .then(nw.col(f"hash_{name}"))
        .otherwise(nw.col(f"group_{name}"))
        .alias(f"next_{name}")
        for name in ("at_us", "prompt_tokens")
    )
    prompt, completion = nw.col("prompt_tokens"), nw.col("completion_tokens")
    after, longer = nw.col("next_at_us"), nw.col("next_prompt_tokens")
    asked_again = (
        (after - nw.col("at_us") <= thresholds.d5_again_seconds * _SECOND_US)
        & (longer >= prompt)
        & (longer <= prompt + completion + thresholds.d5_again_tokens)
    )
    is_thrown_away = longer < prompt + completion * thresholds.d5_thrown_away_share
    return (
        calls.with_columns(*following)
        .with_columns(next_us, next_prompt)
        .with_columns(
            asked_again.fill_null(value=False).cast(nw.Int64).alias("asked_again"),
            is_thrown_away.fill_null(value=False).alias("is_thrown_away"),
        )
    )


def _find_excess(capped: Calls, thresholds: Thresholds) -> Calls:
    """Return each group's `share` of asked-again cut calls that other calls don't explain.

    It is 0 where cut calls are hardly asked again more often than others: on dense traffic,
    something always follows.
    """
    cut, again = nw.col("is_cut"), nw.col("asked_again")
    cut_share = nw.col("cut_again") / nw.col("cut")
    others = (nw.col("calls") - nw.col("cut")).clip(lower_bound=1)
    other_share = (nw.col("again") - nw.col("cut_again")) / others
    more = nw.col("cut_share") - nw.col("other_share")
    is_more = (more >= thresholds.d5_again_min_excess_share - QUANTILE_MARGIN) & (more > 0)
    return (
        capped.with_columns((cut * again).alias("cut_again"))
        .group_by("group")
        .agg(
            nw.len().alias("calls"),
            cut.sum().alias("cut"),
            again.sum().alias("again"),
            nw.col("cut_again").sum(),
        )
        .with_columns(nw.col("calls", "cut", "again", "cut_again").cast(nw.Int64))
        .with_columns(cut_share.alias("cut_share"), other_share.alias("other_share"))
        .with_columns(
            nw.when(is_more).then(more / nw.col("cut_share")).otherwise(nw.lit(0.0)).alias("share")
        )
        .select("group", "share")
    )
