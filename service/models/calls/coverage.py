"""Whether two periods can be compared: the earlier one must have data, too.

A change from days without data says when an account began to send calls, and nothing of its spend.
"""

from collections.abc import Collection
from datetime import date
from decimal import Decimal
from typing import Final

from sqlalchemy import func, or_, select

from detectors.wording.figures import short_day
from service.models.base import Executor
from service.models.calls.daily_spend import SpendDay, day_of, within_days
from service.models.calls.spend import Period, Periods

# So many of the earlier days may lack data that the later ones have.
_MOST_MISSING: Final = Decimal("0.1")


def find_gap(
    session: Executor, account_id: str, periods: Periods, *, is_local: bool = False
) -> str:
    """Say why the periods of an account can't be compared; "" if they can."""
    day = day_of(SpendDay, is_local=is_local)
    before, after = (
        within_days(SpendDay, each.first, each.last, is_local=is_local) for each in periods
    )
    days = [func.count(day.distinct()).filter(each) for each in (before, after)]
    # The first day of all may be that of a call from a wrong clock, years ago.
    query = select(func.min(day), *days).where(
        SpendDay.account_id == account_id, or_(before, after)
    )
    first_day, *known = session.execute(query).one()
    return _describe(periods, first_day, known[0], known[1])


def find_gap_of(days: Collection[date], periods: Periods) -> str:
    """Say the same of periods whose days with data, and some before them, are known."""
    known = (sum(each.first <= day <= each.last for day in days) for each in periods)
    return _describe(periods, min(days, default=None), *known)


def _describe(periods: Periods, first_day: date | None, before: int, after: int) -> str:
    expected = Decimal(after * periods[0].days) / periods[1].days
    is_later = first_day is not None and first_day > periods[0].last
    if expected - before <= _MOST_MISSING * periods[0].days and not is_later:
        return ""
    if first_day is not None and first_day > periods[0].first:
        return f"No comparison: data starts {short_day(first_day)}"
    return f"No comparison: data on {before} of the {periods[0].days} days before"


def find_start(days: Collection[date], period: Period) -> str:
    """Say that the data starts so late in a period that it can't be compared; "" if it doesn't."""
    first_day = min(days, default=None)
    if first_day is not None and (first_day - period.first).days <= _MOST_MISSING * period.days:
        return ""
    return f"No comparison: data starts {short_day(first_day)}" if first_day else "No data before"
