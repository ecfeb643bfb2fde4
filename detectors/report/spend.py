"""Spend by model and by route; and calls that are not priced."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TypeVar

import narwhals.stable.v2 as nw

from detectors.contract import (
    LONGEST_LIST,
    Others,
    SpendByModel,
    SpendByRoute,
    UnpricedModel,
)
from detectors.engines import Calls, Engine, Row
from detectors.report.impacts import Group
from detectors.report.money import rounded, split, sums, usd

Key = TypeVar("Key", bound=tuple[str, ...])
Line = TypeVar("Line", SpendByModel, SpendByRoute, UnpricedModel)


def find_groups(calls: Calls, labels: Calls, engine: Engine) -> dict[int, Group]:
    """Return every (route, provider, model) of every log by its number."""

    def plan(calls: Calls, labels: Calls) -> list[Calls]:
        is_in = nw.col("in_window")
        spent = calls.select(
            "group",
            "at_us",
            "cost_usd",
            (nw.col("prompt_tokens") + nw.col("completion_tokens")).alias("tokens"),
            nw.when(is_in).then(nw.col("cost_usd")).otherwise(nw.lit(0.0)).alias("window_usd"),
            is_in.cast(nw.Int64).alias("window_calls"),
            nw.when(is_in).then(nw.col("at_us")).otherwise(0).alias("last_us"),
        )
        summed = (
            split(spent, "cost_usd", "window_usd")
            .group_by("group")
            .agg(
                nw.len().alias("calls"),
                nw.col("window_calls", "tokens").sum(),
                nw.col("last_us").max(),
                nw.col("at_us").max().alias("last_ever_us"),
                *sums("cost_usd", "window_usd"),
            )
        )
        return [summed.join(labels, on="group", how="inner")]

    (spent,) = engine.apply("groups", plan, calls, labels)
    return {
        row["group"]: Group(
            log=row.get("log", 0),
            route=row["route_label"],
            provider=row["provider"],
            model=row["model"],
            calls=row["calls"],
            tokens=int(row["tokens"]),
            spend_usd=usd(row, "cost_usd"),
            window_calls=row["window_calls"],
            window_usd=usd(row, "window_usd"),
            last_us=row["last_us"] or row["last_ever_us"],
        )
        for row in engine.fetch(spent)
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


def shorten(lines: tuple[Line, ...]) -> tuple[tuple[Line, ...], Others]:
    """Return the first lines of a list, and the sums of the others."""
    rest = lines[LONGEST_LIST:]
    others = Others(
        count=len(rest),
        calls=sum(line.calls for line in rest),
        spend_usd=sum((getattr(line, "spend_usd", Decimal(0)) for line in rest), Decimal(0)),
    )
    return lines[:LONGEST_LIST], others


def count_models(calls: Calls, engine: Engine, keys: Sequence[str] = ()) -> list[Row]:
    """Count the calls of each (provider, model) of each log, priced or not."""
    counts = calls.group_by(*keys, "provider", "model").agg(nw.len().alias("calls"))
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
