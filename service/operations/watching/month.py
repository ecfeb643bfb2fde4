"""The month of today beside the last one, and whether its spend so far is what was to be expected.

Pure functions of daily dollars. Each day is expected to cost the median of the same weekday in the
four weeks before the month; the range around the sum is as wide as weeks differ, and at least 30%.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from statistics import median
from typing import Final

from service.models.calls.coverage import find_gap_of, find_start
from service.models.calls.spend import Period
from service.operations.watching.forecast import forecast_month

# Days before the month whose dollars are needed to judge it.
HISTORY_DAYS: Final = 56
_WEEK: Final = 7
_MEDIAN_WEEKS: Final = 4
_MIN_WEEKS: Final = 3
_MAD_SCALE: Final = Decimal("1.4826")
_WIDTH: Final = 3
_LEAST_TOLERANCE: Final = Decimal("0.3")
# A range that is wider says nothing.
_WIDEST_RANGE: Final = 3
_NONE: Final = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What some days cost, and the range that was to be expected of them."""

    first: date
    last: date
    usd: Decimal
    low: Decimal
    high: Decimal

    @property
    def is_wide(self) -> bool:
        """Return True if nearly any spend would be within the range."""
        return self.high > _WIDEST_RANGE * self.low

    @property
    def verdict(self) -> str:
        if self.usd > self.high:
            return "above"
        return "below" if self.usd < self.low else "within"


@dataclass(frozen=True, kw_only=True)
class Month:
    """The dollars of this month until today, and those of the last month."""

    today: date
    spent_usd: Decimal
    forecast_usd: Decimal | None
    # Through yesterday, because today isn't over; and the same days of the last month.
    closed_usd: Decimal
    previous_closed_usd: Decimal
    previous_usd: Decimal
    # Why the days so far, and the month, can't be compared with the last one; "" if they can.
    gap: str
    forecast_gap: str
    expected: Expected | None  # None with less than three weeks of history

    @property
    def first(self) -> date:
        return self.today.replace(day=1)

    @property
    def yesterday(self) -> date:
        return self.today - timedelta(days=1)

    @property
    def so_far(self) -> tuple[date, date]:
        return self.first, self.today

    @property
    def previous_first(self) -> date:
        return (self.first - timedelta(days=1)).replace(day=1)

    @property
    def previous_so_far(self) -> tuple[date, date]:
        """Return the same days of the last month, or all of them if it is shorter."""
        return self.previous_first, _same_day(self.today)

    @property
    def previous_closed(self) -> tuple[date, date]:
        return self.previous_first, _same_day(self.today) - timedelta(days=1)


def days_needed(today: date) -> tuple[date, date]:
    """Return the days whose dollars `look_at_month` reads."""
    return today.replace(day=1) - timedelta(days=HISTORY_DAYS), today


def look_at_month(usd_by_day: Mapping[date, Decimal], today: date) -> Month:
    """Compare the month of today with the one before."""
    first = today.replace(day=1)
    previous = (first - timedelta(days=1)).replace(day=1)
    yesterday = today - timedelta(days=1)
    same = _same_day(today) - timedelta(days=1)
    last_month = Period(previous, first - timedelta(days=1))
    # On the first, nothing of the month is over.
    closed = (Period(previous, same), Period(first, yesterday)) if same >= previous else None
    late = find_start(usd_by_day, last_month)
    gap = find_gap_of(usd_by_day, closed) if closed else late
    return Month(
        today=today,
        spent_usd=_sum(usd_by_day, first, today),
        forecast_usd=forecast_month(usd_by_day, today),
        closed_usd=_sum(usd_by_day, first, yesterday),
        previous_closed_usd=_sum(usd_by_day, previous, same),
        previous_usd=_sum(usd_by_day, previous, first - timedelta(days=1)),
        gap=gap,
        forecast_gap=gap or late,
        expected=_expect(usd_by_day, first, yesterday),
    )


def _same_day(today: date) -> date:
    last = today.replace(day=1) - timedelta(days=1)
    return last.replace(day=min(today.day, last.day))


def _sum(usd_by_day: Mapping[date, Decimal], first: date, last: date) -> Decimal:
    return sum((usd for day, usd in usd_by_day.items() if first <= day <= last), _NONE)


def _expect(usd_by_day: Mapping[date, Decimal], first: date, last: date) -> Expected | None:
    """Judge the days of the month that have enough days before them."""
    oldest = min(usd_by_day, default=last)
    begin = max(first, oldest + timedelta(days=_MIN_WEEKS * _WEEK))
    if begin > last:
        return None
    weeks = min((begin - oldest).days, HISTORY_DAYS) // _WEEK
    usual = list[Decimal]()
    for at in range(_WEEK):  # the median of the same weekday in the weeks before
        days = (begin + timedelta(days=at - _WEEK * back) for back in range(1, weeks + 1))
        usual.append(median(usd_by_day.get(day, _NONE) for day in islice(days, _MEDIAN_WEEKS)))
    expected = sum((usual[at % _WEEK] for at in range((last - begin).days + 1)), _NONE)
    # How far whole weeks are from their median, as a share of it.
    starts = (begin - timedelta(days=_WEEK * back) for back in range(1, weeks + 1))
    totals = [_sum(usd_by_day, each, each + timedelta(days=_WEEK - 1)) for each in starts]
    middle, tolerance = median(totals), _LEAST_TOLERANCE
    if middle:
        deviation = _MAD_SCALE * median(abs(each - middle) for each in totals) / middle
        tolerance = max(_WIDTH * deviation, _LEAST_TOLERANCE)
    return Expected(
        first=begin,
        last=last,
        usd=_sum(usd_by_day, begin, last),
        low=max(expected * (1 - tolerance), _NONE),
        high=expected * (1 + tolerance),
    )
