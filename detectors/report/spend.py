"""Spend by model and by route; calls that are not priced; and all spend of one log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec
import polars as pl
from msgspec.structs import replace

from detectors.contract import (
    LONGEST_LIST,
    KnownModel,
    Others,
    SpendByDay,
    SpendByDayAndModel,
    SpendByModel,
    SpendByRoute,
    UnpricedModel,
)
from detectors.engine import Calls, Row, collect, fetch
from detectors.prices.book import PriceBook
from detectors.report.counting.projection import DAY_US, EPOCH
from detectors.report.impacts import Group
from detectors.report.money import add_usd, collect_usd, rounded, usd

Key = TypeVar("Key", bound=tuple[str, ...])
Line = TypeVar("Line", SpendByModel, SpendByRoute, UnpricedModel)

_MOST_SUGGESTED: Final = 20
_KEY: Final = ("group", "in_window")
_DAILY: Final = ("log", "day", "provider", "model")
_DAILY_MODELS: Final = 8
_DAILY_DAYS: Final = 1_000


class LogSpend(msgspec.Struct, frozen=True):
    """The spend of one log."""

    groups: Sequence[Group]
    models: tuple[SpendByModel, ...]
    days: tuple[SpendByDay, ...]
    days_and_models: tuple[SpendByDayAndModel, ...]

    def sections(self, counted: Sequence[Row], book: PriceBook) -> dict[str, Any]:
        models, other_models = shorten(self.models)
        routes, other_routes = shorten(by_route(self.groups))
        unpriced, other_unpriced = shorten(count_unpriced(counted, self.groups, book))
        return {
            "spend_by_model": models,
            "spend_by_route": routes,
            "spend_by_day": self.days,
            "unpriced": unpriced,
            "spend_by_day_and_model": self.days_and_models,
            "other_models": other_models,
            "other_routes": other_routes,
            "other_unpriced": other_unpriced,
        }


def sum_days(calls: Calls) -> pl.DataFrame:
    """Sum calls and dollars by group and day, which all lists of spend are added up from."""
    tokens = (pl.col("prompt_tokens") + pl.col("completion_tokens")).alias("tokens")
    day = (pl.col("at_us") // DAY_US).alias("day")
    spent = calls.select(*_KEY, day, "at_us", "cost_usd", tokens)
    others = [
        pl.len().cast(pl.Int64).alias("calls"),
        pl.col("tokens").sum(),
        pl.col("at_us").max().alias("last_us"),
    ]
    return collect_usd(spent, "cost_usd", by=[*_KEY, "day"], others=others)


def find_groups(spent: pl.DataFrame, labels: pl.DataFrame) -> dict[int, Group]:
    """Return every (route, provider, model) of every log by its number."""
    others = [pl.col("calls", "tokens").sum(), pl.col("last_us").max()]
    added = add_usd(spent.lazy(), "cost_usd", by=_KEY, others=others)
    # A group has a row for its calls in the window, and one for the others.
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in fetch(added.join(labels.lazy(), on="group", how="inner")):
        rows[row["group"]].append(row)
    groups = {}
    for number, own in rows.items():
        window = [row for row in own if row["in_window"]]
        groups[number] = Group(
            log=own[0].get("log", 0),
            route=own[0]["route_label"],
            provider=own[0]["provider"],
            model=own[0]["model"],
            calls=sum(int(row["calls"]) for row in own),
            tokens=sum(int(row["tokens"]) for row in own),
            spend_usd=sum((usd(row, "cost_usd") for row in own), Decimal(0)),
            window_calls=sum(int(row["calls"]) for row in window),
            window_usd=sum((usd(row, "cost_usd") for row in window), Decimal(0)),
            last_us=max(row["last_us"] for row in window or own),
        )
    return groups


def by_day_and_model(spent: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Add up what `sum_days` returned by log, day, provider and model."""
    names = pl.col("provider", "model").cast(pl.String)
    log = pl.col("log") if "log" in labels.columns else pl.lit(0, pl.Int32).alias("log")
    labelled = spent.join(labels.select("group", names, log), on="group")
    return add_days([labelled])


def add_days(spent: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up sums by log, day, provider and model."""
    calls = [pl.col("calls").sum()]
    frame = pl.concat([each.select(*_DAILY, "calls", "cost_usd_units") for each in spent])
    return collect(add_usd(frame.lazy(), "cost_usd", by=_DAILY, others=calls))


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


def shorten(lines: tuple[Line, ...]) -> tuple[tuple[Line, ...], Others]:
    """Return the first lines of a list, and the sums of the others."""
    rest = lines[LONGEST_LIST:]
    others = Others(
        count=len(rest),
        calls=sum(line.calls for line in rest),
        spend_usd=sum((getattr(line, "spend_usd", Decimal(0)) for line in rest), Decimal(0)),
    )
    return lines[:LONGEST_LIST], others


def count_unpriced(
    models: Iterable[Row], groups: Iterable[Group], book: PriceBook
) -> tuple[UnpricedModel, ...]:
    """Return models with calls that are not priced, most calls first, ties by name.

    The first have suggestions, which take a search through the price book.
    """
    priced: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for group in groups:
        calls, tokens = priced[group.provider, group.model]
        priced[group.provider, group.model] = calls + group.calls, tokens + group.tokens
    lines = []
    for row in models:
        calls, tokens = priced[row["provider"], row["model"]]
        if row["calls"] > calls:
            labels = {"provider": row["provider"], "model": row["model"]}
            left = {"calls": row["calls"] - calls, "tokens": int(row["tokens"]) - tokens}
            lines.append(UnpricedModel(**labels, **left))
    lines.sort(key=lambda line: (-line.calls, line.provider, line.model))
    for index, line in enumerate(lines[:_MOST_SUGGESTED]):
        near = book.suggest(line.provider, line.model)
        known = tuple(KnownModel(provider=provider, model=model) for provider, model in near)
        lines[index] = replace(line, suggestions=known)
    return tuple(lines)


def list_days(spent: pl.DataFrame, logs: int) -> list[tuple[SpendByDay, ...]]:
    """Return the spend of each day, in UTC, with priced calls, of each log.

    `spent` is what `spend.by_day_and_model` returns.
    """
    calls = [pl.col("calls").sum()]
    found: list[list[SpendByDay]] = [[] for _ in range(logs)]
    for row in fetch(
        add_usd(spent.lazy(), "cost_usd", by=["log", "day"], others=calls).sort("day")
    ):
        dollars = rounded(usd(row, "cost_usd"))
        found[row["log"]].append(
            SpendByDay(day=_date(row["day"]), calls=row["calls"], spend_usd=dollars)
        )
    return [tuple(days) for days in found]


def list_days_and_models(
    spent: pl.DataFrame,
    days: Sequence[Sequence[SpendByDay]],
    models: Sequence[Sequence[SpendByModel]],
) -> list[tuple[SpendByDayAndModel, ...]]:
    """Return the daily spend of each log's top models; empty for logs of very many days."""
    ranks = {
        (log, top.provider, top.model): rank
        for log, tops in enumerate(models)
        for rank, top in enumerate(tops[:_DAILY_MODELS])
        if len(days[log]) <= _DAILY_DAYS
    }
    found: list[list[SpendByDayAndModel]] = [[] for _ in days]
    rows = [
        (row["day"], rank, row)
        for row in spent.iter_rows(named=True)
        if (rank := ranks.get((row["log"], row["provider"], row["model"]))) is not None
    ]
    for _, _, row in sorted(rows, key=lambda each: each[:2]):
        found[row["log"]].append(
            SpendByDayAndModel(
                day=_date(row["day"]),
                provider=row["provider"],
                model=row["model"],
                spend_usd=rounded(usd(row, "cost_usd")),
            )
        )
    return [tuple(days_and_models) for days_and_models in found]


def _date(day: int) -> str:
    return (EPOCH + timedelta(days=day)).date().isoformat()
