"""Flags answers that were cut off, and asked again: a similar call follows within minutes."""

from typing import Final

import polars as pl

from detectors.contract import Thresholds
from detectors.engine import Calls
from detectors.rules.detector import QUANTILE_MARGIN, flag

_SECOND_US: Final = 1_000_000
_HASH: Final = ("group", "prefix")


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
