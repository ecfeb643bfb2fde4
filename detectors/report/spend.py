"""Spend by model, by route and by day; and calls that are not priced."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar

import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import (
    LONGEST_LIST,
    Others,
    SpendByDay,
    SpendByDayAndModel,
    SpendByModel,
    SpendByRoute,
    UnpricedModel,
)
from detectors.engines import Calls, Engine, Row
from detectors.report.evidence import EPOCH
from detectors.report.impacts import Group
from detectors.report.money import rounded, split, sums, usd

Key = TypeVar("Key", bound=tuple[str, ...])
Line = TypeVar("Line", SpendByModel, SpendByRoute, UnpricedModel)

DAY_US: Final = 86_400_000_000
_DAILY_MODELS: Final = 8
_DAILY_DAYS: Final = 1_000


def find_groups(calls: Calls, labels: Calls, engine: Engine) -> dict[int, Group]:
    """Return every (route, provider, model) by its number."""
    spent = (
        split(calls.select("group", "at_us", "cost_usd"), "cost_usd")
        .group_by("group")
        .agg(nw.len().alias("calls"), nw.col("at_us").max().alias("last_us"), *sums("cost_usd"))
    )
    return {
        row["group"]: Group(
            route=row["route_label"],
            provider=row["provider"],
            model=row["model"],
            calls=row["calls"],
            last_us=row["last_us"],
            spend_usd=usd(row, "cost_usd"),
        )
        for row in engine.fetch(spent.join(labels, on="group", how="inner"))
    }


def by_model(groups: Iterable[Group]) -> tuple[SpendByModel, ...]:
    """Return the spend by model, most expensive first, ties by name."""
    lines = [
        SpendByModel(provider=provider, model=model, calls=calls, spend_usd=rounded(spend))
        for (provider, model), calls, spend in _sum(groups, lambda g: (g.provider, g.model))
    ]
    return tuple(sorted(lines, key=lambda line: (-line.spend_usd, line.provider, line.model)))


def by_route(groups: Iterable[Group]) -> tuple[SpendByRoute, ...]:
    """Return the spend by route, most expensive first; without tag and endpoint it is empty."""
    lines = [
        SpendByRoute(route=route, calls=calls, spend_usd=rounded(spend))
        for (route,), calls, spend in _sum(groups, lambda g: (g.route,))
    ]
    return tuple(sorted(lines, key=lambda line: (-line.spend_usd, line.route)))


def _sum(groups: Iterable[Group], key: Callable[[Group], Key]) -> list[tuple[Key, int, Decimal]]:
    calls: dict[Key, int] = defaultdict(int)
    spend: dict[Key, Decimal] = defaultdict(Decimal)
    for group in groups:
        calls[key(group)] += group.calls
        spend[key(group)] += group.spend_usd
    return [(name, calls[name], spend[name]) for name in calls]


def by_day(calls: Calls, engine: Engine) -> tuple[SpendByDay, ...]:
    """Return the spend of each day, in UTC, with priced calls."""
    days = _daily(calls).group_by("day").agg(nw.len().alias("calls"), *sums("cost_usd"))
    return tuple(
        SpendByDay(
            day=_date(row["day"]), calls=row["calls"], spend_usd=rounded(usd(row, "cost_usd"))
        )
        for row in sorted(engine.fetch(days), key=lambda row: row["day"])
    )


def by_day_and_model(
    calls: Calls,
    labels: Calls,
    days: Sequence[SpendByDay],
    models: Sequence[SpendByModel],
    engine: Engine,
) -> tuple[SpendByDayAndModel, ...]:
    """Return the daily spend of the most expensive models; empty for logs of very many days."""
    if len(days) > _DAILY_DAYS:
        return ()
    ranks = pl.DataFrame(
        [(top.provider, top.model, rank) for rank, top in enumerate(models[:_DAILY_MODELS])],
        {"provider": pl.String, "model": pl.String, "rank": pl.Int64},
        orient="row",
    )
    ranked = labels.join(engine.place(ranks, calls), on=["provider", "model"], how="inner")
    spent = (
        _daily(calls.join(ranked.select("group", "rank"), on="group", how="inner"), "rank")
        .group_by("day", "rank")
        .agg(*sums("cost_usd"))
    )
    return tuple(
        SpendByDayAndModel(
            day=_date(row["day"]),
            provider=models[row["rank"]].provider,
            model=models[row["rank"]].model,
            spend_usd=rounded(usd(row, "cost_usd")),
        )
        for row in sorted(engine.fetch(spent), key=lambda row: (row["day"], row["rank"]))
    )


def _daily(calls: Calls, *kept: str) -> Calls:
    day = (nw.col("at_us") // DAY_US).alias("day")
    return split(calls.select(day, "cost_usd", *kept), "cost_usd")


def shorten(lines: tuple[Line, ...]) -> tuple[tuple[Line, ...], Others]:
    """Return the first lines of a list, and the sums of the others."""
    rest = lines[LONGEST_LIST:]
    others = Others(
        count=len(rest),
        calls=sum(line.calls for line in rest),
        spend_usd=sum((getattr(line, "spend_usd", Decimal(0)) for line in rest), Decimal(0)),
    )
    return lines[:LONGEST_LIST], others


def _date(day: int) -> str:
    return (EPOCH + timedelta(days=day)).date().isoformat()


def count_models(calls: Calls, engine: Engine) -> list[Row]:
    """Count the calls of each (provider, model), priced or not."""
    counts = calls.group_by("provider", "model").agg(nw.len().alias("calls"))
    return engine.fetch(counts)


def count_unpriced(models: Iterable[Row], groups: Iterable[Group]) -> tuple[UnpricedModel, ...]:
    """Return models with calls that are not priced, most calls first, ties by name."""
    priced = {name: calls for name, calls, _ in _sum(groups, lambda g: (g.provider, g.model))}
    lines = [
        UnpricedModel(
            provider=row["provider"],
            model=row["model"],
            calls=row["calls"] - priced.get((row["provider"], row["model"]), 0),
        )
        for row in models
    ]
    unpriced = (line for line in lines if line.calls)
    return tuple(sorted(unpriced, key=lambda line: (-line.calls, line.provider, line.model)))
