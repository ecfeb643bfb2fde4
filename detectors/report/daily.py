"""Spend by day, and by day and model, of each log."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import SpendByDay, SpendByDayAndModel, SpendByModel
from detectors.engines import Calls, Engine
from detectors.report.counting.projection import EPOCH
from detectors.report.money import add_usd, rounded, usd

_DAILY_MODELS: Final = 8
_DAILY_DAYS: Final = 1_000


def by_day(
    spent: Calls, engine: Engine, logs: int, keys: Sequence[str] = ()
) -> list[tuple[SpendByDay, ...]]:
    """Return the spend of each day, in UTC, with priced calls, of each log.

    `spent` is what `spend.sum_days` returns.
    """

    def plan(spent: Calls) -> list[Calls]:
        calls = [nw.col("calls").sum()]
        return [add_usd(spent, "cost_usd", by=[*keys, "day"], others=calls)]

    (days,) = engine.apply(("days", *keys), plan, spent)
    found: list[list[SpendByDay]] = [[] for _ in range(logs)]
    for row in sorted(engine.fetch(days), key=lambda row: row["day"]):
        dollars = rounded(usd(row, "cost_usd"))
        found[row.get("log", 0)].append(
            SpendByDay(day=_date(row["day"]), calls=int(row["calls"]), spend_usd=dollars)
        )
    return [tuple(days) for days in found]


def by_day_and_model(
    spent: Calls,
    labels: Calls,
    days: Sequence[Sequence[SpendByDay]],
    models: Sequence[Sequence[SpendByModel]],
    engine: Engine,
) -> list[tuple[SpendByDayAndModel, ...]]:
    """Return the daily spend of each log's top models; empty for logs of very many days."""
    keys = ["log"] if len(days) > 1 else []
    ranks = [
        (log, top.provider, top.model, rank)
        for log, tops in enumerate(models)
        for rank, top in enumerate(tops[:_DAILY_MODELS])
        if len(days[log]) <= _DAILY_DAYS
    ]
    schema = {"log": pl.Int32, "provider": pl.String, "model": pl.String, "rank": pl.Int64}
    placed = engine.place(pl.DataFrame(ranks, schema, orient="row"), labels)

    def plan(spent: Calls, labels: Calls, ranks: Calls) -> list[Calls]:
        if not keys:
            ranks = ranks.drop("log")
        ranked = labels.join(ranks, on=[*keys, "provider", "model"], how="inner")
        top = spent.join(ranked.select("group", "rank"), on="group", how="inner")
        return [add_usd(top, "cost_usd", by=[*keys, "day", "rank"])]

    found: list[list[SpendByDayAndModel]] = [[] for _ in days]
    if ranks:
        (daily,) = engine.apply(("days and models", *keys), plan, spent, labels, placed)
        for row in sorted(engine.fetch(daily), key=lambda row: (row["day"], row["rank"])):
            log = row.get("log", 0)
            model = models[log][row["rank"]]
            found[log].append(
                SpendByDayAndModel(
                    day=_date(row["day"]),
                    provider=model.provider,
                    model=model.model,
                    spend_usd=rounded(usd(row, "cost_usd")),
                )
            )
    return [tuple(days_and_models) for days_and_models in found]


def _date(day: int) -> str:
    return (EPOCH + timedelta(days=day)).date().isoformat()
