"""The forecast for the month: what was spent, and a usual day for each that is left.

A pure function of daily dollars. A usual day is the median of the same weekday in the four weeks
before, so that one unusual day changes no forecast.
"""

from calendar import monthrange
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Final

HISTORY_DAYS: Final = 28
_WEEK: Final = 7


def forecast_month(usd_by_day: Mapping[date, Decimal], today: date) -> Decimal | None:
    """Return the dollars of today's month at its end, or None with less than a week of history.

    Today counts in full: as what was spent, or as a usual day if that is more.
    """
    first_known = min(usd_by_day, default=today)
    if (today - first_known).days < _WEEK:
        return None
    first = today.replace(day=1)
    closed = sum((usd for day, usd in usd_by_day.items() if first <= day < today), Decimal(0))
    history_begins = max(first_known, today - timedelta(days=HISTORY_DAYS))
    usual = list[Decimal]()
    for ahead in range(_WEEK):  # the median of the weekday that is so many days ahead
        newest = today + timedelta(days=ahead - _WEEK)
        days = (newest - timedelta(days=_WEEK * week) for week in range(HISTORY_DAYS // _WEEK))
        known = [usd_by_day.get(day, Decimal(0)) for day in days if day >= history_begins]
        usual.append(median(known))
    days_after = monthrange(today.year, today.month)[1] - today.day
    coming = sum((usual[ahead % _WEEK] for ahead in range(1, days_after + 1)), Decimal(0))
    return closed + max(usd_by_day.get(today, Decimal(0)), usual[0]) + coming
