"""Spend by day, route, provider, model and environment: the sums that charts and exports read."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import DailySpend
from detectors.engines import Calls, Engine, Row, engine_of
from detectors.frames.sources import place_together
from detectors.prices.book import PriceBook
from detectors.prices.calls import LABELS, number_groups, price_labelled, read_labels
from detectors.report.counting.projection import DAY_US, EPOCH
from detectors.report.money import rounded, sum_usd, usd

_TOKENS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_LOG: Final = ("log",)
_KEY: Final = ("log", "day", *LABELS, "environment")
_COST: Final = "cost_usd"
_UNPRICED: Final = (0, Decimal(0))


def sum_spend(
    frames: Sequence[pl.DataFrame], prices: PriceBook, list_prices: PriceBook | None = None
) -> list[list[DailySpend]]:
    """Return the spend of each frame of calls.

    Parameters
    ----------
    frames : sequence of polars.DataFrame
        Calls with the columns of `UsageLog.frame`; they share the planning of the queries.
    prices : PriceBook
        The account's prices.
    list_prices : PriceBook, optional
        The prices without the account's terms; `prices` by default.

    Returns
    -------
    list of list of DailySpend
        The lines of each frame, ordered by day, route, provider, model and environment.
    """
    if not any(frame.height for frame in frames):
        return [[] for _ in frames]
    calls = place_together(frames).with_columns(nw.lit(True).alias("in_window"))
    engine = engine_of(calls)
    try:
        labelled = read_labels(calls, _LOG)
        counted = engine.fetch(_count(labelled))
        groups = number_groups(labelled, engine, _LOG)
        own = _price(labelled, groups, engine, prices)
        listed = _price(labelled, groups, engine, list_prices) if list_prices else own
    finally:
        engine.close()
    found: list[list[DailySpend]] = [[] for _ in frames]
    for row in sorted(counted, key=_key_of):
        key = _key_of(row)
        calls_priced, cost = own.get(key, _UNPRICED)
        found[row["log"]].append(_line(row, calls_priced, cost, listed.get(key, _UNPRICED)[1]))
    return found


def _count(labelled: Calls) -> Calls:
    return _by_day(labelled).group_by(*_KEY).agg(nw.len().alias("calls"), nw.col(*_TOKENS).sum())


def _by_day(calls: Calls) -> Calls:
    """Add the day, and an environment where no call has one."""
    calls = calls.with_columns((nw.col("at_us") // DAY_US).alias("day"))
    if "environment" in calls.collect_schema().names():
        return calls
    return calls.with_columns(nw.lit("").alias("environment"))


def _price(
    labelled: Calls, groups: Calls, engine: Engine, book: PriceBook
) -> dict[tuple[Any, ...], tuple[int, Decimal]]:
    """Return the number of priced calls and their cost by key."""
    priced = price_labelled(labelled, groups, book, engine, _LOG).calls
    key = ("group", "day", "environment")
    by_group = _by_day(priced).select(*key, _COST)
    summed = sum_usd(by_group, _COST, by=key, others=[nw.len().alias("calls")])
    rows = engine.fetch(summed.join(groups, on="group", how="inner"))
    return {_key_of(row): (row["calls"], usd(row, _COST)) for row in rows}


def _key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _line(row: Row, priced: int, cost: Decimal, list_cost: Decimal) -> DailySpend:
    return DailySpend(
        day=(EPOCH + timedelta(days=row["day"])).date(),
        route=row["route_label"],
        provider=row["provider"],
        model=row["model"],
        environment=row["environment"],
        calls=row["calls"],
        unpriced_calls=row["calls"] - priced,
        cost_usd=rounded(cost),
        list_usd=rounded(list_cost),
        **{name: int(row[name]) for name in _TOKENS},
    )
