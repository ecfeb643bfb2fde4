"""Spend by day, route, provider, model and environment: the sums that charts and exports read.

Calls that a plan includes have lines of their own.
"""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import polars as pl

from detectors.contract import DailyPlanUsage, DailySpend
from detectors.engine import Calls, Row, fetch
from detectors.frames.sources import place_together
from detectors.prices.book import PriceBook
from detectors.prices.calls import LABELS, read_labels
from detectors.prices.table import Cells
from detectors.report.account.zones import shift_days
from detectors.report.counting.billing import is_included
from detectors.report.counting.projection import DAY_US, EPOCH
from detectors.report.money import rounded, sum_usd, usd

_TOKENS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_LOG: Final = ("log",)
_INCLUDED: Final = "are_included"
# Three numbers for each UTC day: of its calls on the day before, that day and the day after.
_DAYS: Final = "days"
_SHIFTS: Final = 3
_KEY: Final = ("log", _DAYS, *LABELS, "environment", _INCLUDED, "hour")
_HOUR_US: Final = 3_600_000_000
_COST: Final = "cost_usd"
_UNPRICED: Final = (0, Decimal(0))


def sum_spend(
    frames: Sequence[pl.DataFrame],
    prices: PriceBook,
    list_prices: PriceBook | None = None,
    *,
    zone: str = "",
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
    zone : str, optional
        The name of a time zone: a UTC day of which parts are other days there has a line for each.

    Returns
    -------
    list of list of DailySpend
        The lines of each frame, ordered by day, route, provider, model and environment, those of
        metered calls before those of calls that a plan includes.
    """
    if not any(frame.height for frame in frames):
        return [[] for _ in frames]
    labelled = read_labels(place_together(frames), _LOG)
    shift = shift_days(frames, zone) if zone else pl.lit(0)
    # All calls, also those without a price.
    sums = (pl.len().alias("calls"), pl.col(_TOKENS).sum())
    counted = fetch(_by_day(labelled, shift).group_by(_KEY).agg(sums))
    own = _price(labelled, prices, shift)
    listed = _price(labelled, list_prices, shift) if list_prices else own
    found: list[list[DailySpend]] = [[] for _ in frames]
    for row in sorted(counted, key=_key_of):
        key = _key_of(row)
        calls_priced, cost = own.get(key, _UNPRICED)
        day, shifted = divmod(row[_DAYS], _SHIFTS)
        line: dict[str, Any] = {
            "day": (EPOCH + timedelta(days=day)).date(),
            "route": row["route_label"],
            **{name: row[name] for name in ("provider", "model", "environment", "calls")},
            "unpriced_calls": row["calls"] - calls_priced,
            "cost_usd": rounded(cost),
            "list_usd": rounded(listed.get(key, _UNPRICED)[1]),
            **{name: int(row[name]) for name in _TOKENS},
            "day_shift": shifted - 1,
        }
        is_plan = row[_INCLUDED]
        found[row["log"]].append(
            DailyPlanUsage(**line, hour=row["hour"]) if is_plan else DailySpend(**line)
        )
    return found


def _by_day(calls: Calls, shift: pl.Expr) -> Calls:
    """Add the day, whether a plan includes the call, and an environment where no call has one.

    The hour is that of calls that a plan includes; of others, which are summed by day, it is 0.
    """
    days = (pl.col("at_us") // DAY_US * _SHIFTS + shift + 1).alias(_DAYS)
    calls = calls.with_columns(days, is_included(calls).alias(_INCLUDED))
    hour = pl.when(_INCLUDED).then(pl.col("at_us") % DAY_US // _HOUR_US).otherwise(0)
    calls = calls.with_columns(hour.alias("hour"))
    if "environment" in calls.collect_schema().names():
        return calls
    return calls.with_columns(pl.lit("").alias("environment"))


def _price(
    labelled: Calls, book: PriceBook, shift: pl.Expr
) -> dict[tuple[Any, ...], tuple[int, Decimal]]:
    """Return the number of priced calls and their cost by key."""
    cells = Cells.of(labelled, book)
    priced = _by_day(cells.add_cost(cells.number(labelled)), shift).select(*_KEY, _COST)
    summed = sum_usd(priced, _COST, by=_KEY, others=[pl.len().alias("calls")])
    return {_key_of(row): (row["calls"], usd(row, _COST)) for row in fetch(summed)}


def _key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)
