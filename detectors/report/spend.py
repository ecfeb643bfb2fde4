"""Where the money went: by model, by route, by day; and what has no price."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar

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
from detectors.report.evidence import EPOCH
from detectors.report.impacts import Group
from detectors.report.money import rounded, units, usd

Key = TypeVar("Key", bound=tuple[str, ...])
Line = TypeVar("Line", SpendByModel, SpendByRoute, UnpricedModel)

DAY_US: Final = 86_400_000_000
_DAILY_MODELS: Final = 8
_DAILY_DAYS: Final = 1_000


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


def by_day_and_model(
    calls: pl.DataFrame,
    groups: Mapping[int, Group],
    days: Sequence[SpendByDay],
    models: Sequence[SpendByModel],
) -> tuple[SpendByDayAndModel, ...]:
    """The days of the dearest models, by day and rank; nothing of a log of very many days."""
    if len(days) > _DAILY_DAYS:
        return ()
    named = {(one.provider, one.model): rank for rank, one in enumerate(models[:_DAILY_MODELS])}
    ranks = [
        (number, named[one.provider, one.model])
        for number, one in groups.items()
        if (one.provider, one.model) in named
    ]
    ranked = pl.DataFrame(ranks, {"group": calls.schema["group"], "rank": pl.Int8}, orient="row")
    spend = (
        calls.lazy()
        .join(ranked.lazy(), on="group")
        .group_by((pl.col("at_us") // DAY_US).alias("day"), "rank")
        .agg(units("cost_usd").sum())
        .sort("day", "rank")
    )
    return tuple(
        SpendByDayAndModel(
            day=_date(day),
            provider=models[rank].provider,
            model=models[rank].model,
            spend_usd=rounded(usd(cost)),
        )
        for day, rank, cost in spend.collect().iter_rows()
    )


def shorten(lines: tuple[Line, ...]) -> tuple[tuple[Line, ...], Others]:
    """The first lines of a list, and the sums of all others."""
    rest = lines[LONGEST_LIST:]
    others = Others(
        count=len(rest),
        calls=sum(line.calls for line in rest),
        spend_usd=sum((getattr(line, "spend_usd", Decimal(0)) for line in rest), Decimal(0)),
    )
    return lines[:LONGEST_LIST], others


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
