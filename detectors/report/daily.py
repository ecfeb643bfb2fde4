"""Spend by day, and by day and model, of each log."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import polars as pl

from detectors.contract import SpendByDay, SpendByDayAndModel, SpendByModel
from detectors.engine import fetch
from detectors.report.counting.projection import EPOCH
from detectors.report.money import add_usd, rounded, usd

_DAILY_MODELS: Final = 8
_DAILY_DAYS: Final = 1_000


def by_day(spent: pl.DataFrame, logs: int) -> list[tuple[SpendByDay, ...]]:
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


def by_day_and_model(
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
