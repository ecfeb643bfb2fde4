"""Where the money went: by model, by route, by day; and what has no price."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar

import polars as pl

from detectors.contract import SpendByDay, SpendByModel, SpendByRoute, UnpricedModel
from detectors.report.evidence import EPOCH
from detectors.report.impacts import Group
from detectors.report.money import rounded, units, usd

Key = TypeVar("Key", bound=tuple[str, ...])

DAY_US: Final = 86_400_000_000


def find_groups(calls: pl.DataFrame, labels: pl.DataFrame) -> dict[int, Group]:
    """Every (route, provider, model) by its number."""
    sums = calls.group_by("group").agg(
        pl.len().alias("calls"), pl.col("at_us").max().alias("last_us"), units("cost_usd").sum()
    )
    return {
        row["group"]: Group(
            route=row["route_label"],
            provider=row["provider"],
            model=row["model"],
            calls=row["calls"],
            last_us=row["last_us"],
            spend_usd=usd(row["cost_usd"]),
        )
        for row in sums.join(labels, on="group").iter_rows(named=True)
    }


def by_model(groups: Iterable[Group]) -> tuple[SpendByModel, ...]:
    """The dearest first, ties by name."""
    lines = [
        SpendByModel(provider=provider, model=model, calls=calls, spend_usd=rounded(spend))
        for (provider, model), calls, spend in _sum(groups, lambda g: (g.provider, g.model))
    ]
    return tuple(sorted(lines, key=lambda line: (-line.spend_usd, line.provider, line.model)))


def by_route(groups: Iterable[Group]) -> tuple[SpendByRoute, ...]:
    """The dearest first, ties by name; calls without tag and endpoint are the empty route."""
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


def by_day(calls: pl.DataFrame) -> tuple[SpendByDay, ...]:
    """The days, in UTC, that have priced calls."""
    days = calls.group_by((pl.col("at_us") // DAY_US).alias("day")).agg(
        pl.len().alias("calls"), units("cost_usd").sum()
    )
    return tuple(
        SpendByDay(day=_date(day), calls=count, spend_usd=rounded(usd(spend)))
        for day, count, spend in days.sort("day").iter_rows()
    )


def _date(day: int) -> str:
    return (EPOCH + timedelta(days=day)).date().isoformat()


def count_models(frame: pl.DataFrame) -> pl.DataFrame:
    """The calls of each (provider, model), priced or not."""
    return frame.group_by("provider", "model").agg(pl.len().alias("calls"))


def count_unpriced(models: pl.DataFrame, groups: Iterable[Group]) -> tuple[UnpricedModel, ...]:
    """Models with calls of unknown rates, those with most such calls first, ties by name."""
    priced = {name: calls for name, calls, _ in _sum(groups, lambda g: (g.provider, g.model))}
    lines = [
        UnpricedModel(
            provider=provider, model=model, calls=calls - priced.get((provider, model), 0)
        )
        for provider, model, calls in models.iter_rows()
    ]
    unpriced = (line for line in lines if line.calls)
    return tuple(sorted(unpriced, key=lambda line: (-line.calls, line.provider, line.model)))
