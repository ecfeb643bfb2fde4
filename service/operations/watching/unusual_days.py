"""Unusual days: spend far above what a route, a model or the account usually has on that weekday.

Pure functions of daily dollars. A day's band comes from the same weekday of the eight weeks before:
their median, and three times their median absolute deviation (MAD), scaled by 1.4826 so that it
estimates a standard deviation. This is the Hampel identifier, with the limit of 3 that Leys et al.
recommend as very conservative ("Detecting outliers: Do not use standard deviation around the mean,
use absolute deviation around the median", Journal of Experimental Social Psychology 49, 2013).

Earlier unusual days hardly move a median. Steady growth is part of what is expected.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Final, NamedTuple

ACCOUNT, ROUTE, MODEL = SCOPES = ("account", "route", "model")
# A band reads so many days before its own.
HISTORY_DAYS: Final = 56

_WEEK: Final = 7
_MIN_WEEKS: Final = 3
_MAD_SCALE: Final = Decimal("1.4826")
_WIDTH: Final = 3
# Eight samples say little about their deviation. So it counts as much as the series' other weekdays
# do, and is at least this share of the median.
_LEAST_DEVIATION: Final = Decimal("0.15")
# What shrinks isn't expected to shrink on; and faster growth than this is worth a notice.
_LEAST_GROWTH, _MOST_GROWTH = Decimal(1), Decimal("1.2")
# How far outside the band a day must be.
_MIN_EXCESS_USD: Final = Decimal(1)
_MIN_EXCESS_SHARE: Final = Decimal("0.3")


class SpendSeries(NamedTuple):
    """Daily dollars of an account, a route or a model; days without spend may be missing."""

    scope: str
    name: str  # empty for the account
    usd_by_day: Mapping[date, Decimal]


class Band(NamedTuple):
    """The dollars that a day usually has, and the most that is still usual."""

    expected: Decimal
    upper: Decimal


@dataclass(frozen=True, kw_only=True)
class UnusualSpend:
    """A series on a day on which it left its band upward."""

    scope: str
    name: str
    usd: Decimal
    band: Band

    @property
    def excess(self) -> Decimal:
        """Return the dollars above what was expected."""
        return self.usd - self.band.expected


def find_unusual(series: Iterable[SpendSeries], day: date) -> list[UnusualSpend]:
    """Return the series that are unusual on the day, ranked by their excess."""
    found = [each for each in (_judge(one, day) for one in series) if each is not None]
    return sorted(found, key=lambda each: (-each.excess, SCOPES.index(each.scope), each.name))


def band_of(usd_by_day: Mapping[date, Decimal], day: date) -> Band | None:
    """Return the band of a day, or None if the series began less than three weeks before it."""
    oldest = day - timedelta(days=HISTORY_DAYS)
    earlier = {each: usd for each, usd in usd_by_day.items() if oldest <= each < day}
    weeks = (day - min(earlier, default=day)).days // _WEEK
    if weeks < _MIN_WEEKS:
        return None
    # The day's own weekday is the last.
    weekdays = [_sample(earlier, day, weeks, first) for first in range(1, _WEEK + 1)]
    if not median(weekdays[-1]):
        # Work that is rarely due, such as a monthly job, is usual up to its largest day.
        return Band(Decimal(0), max(earlier.values()))
    growth = _weekly_growth(weekdays)
    level = [[usd * growth**age for age, usd in enumerate(each, 1)] for each in weekdays]
    expected = median(level[-1])
    usual = median(_relative_deviation(each) for each in level)
    deviation = max((_relative_deviation(level[-1]) + usual) / 2, _LEAST_DEVIATION)
    return Band(expected, expected * (1 + _WIDTH * deviation))


def _sample(
    earlier: Mapping[date, Decimal], day: date, weeks: int, first: int
) -> Sequence[Decimal]:
    """Return the dollars of one weekday, newest first; the newest is so many days before."""
    backs = range(first, first + weeks * _WEEK, _WEEK)
    return [earlier.get(day - timedelta(days=back), Decimal(0)) for back in backs]


def _weekly_growth(weekdays: Sequence[Sequence[Decimal]]) -> Decimal:
    """Return the factor by which spend grows in a week, from the medians of both halves."""
    weeks = len(weekdays[0])
    half = weeks // 2
    halves = [(median(each[:half]), median(each[-half:])) for each in weekdays]
    factors = [newer / older for newer, older in halves if older]
    if not factors:
        return _LEAST_GROWTH
    growth = Decimal(float(median(factors)) ** (1 / (weeks - half)))
    return min(max(growth, _LEAST_GROWTH), _MOST_GROWTH)


def _relative_deviation(samples: Sequence[Decimal]) -> Decimal:
    """Return the scaled MAD as a share of the median."""
    middle = median(samples)
    if not middle:
        return Decimal(0)
    return _MAD_SCALE * median(abs(usd - middle) for usd in samples) / middle


def _least_unusual(usd_by_day: Mapping[date, Decimal], day: date) -> Decimal:
    """Return dollars that no unusual day is below, at a tenth of the cost of its band.

    A band expects no less than the median of the same weekday.
    """
    backs = [day - timedelta(days=_WEEK * week) for week in range(1, HISTORY_DAYS // _WEEK + 1)]
    samples = [usd_by_day[back] for back in backs if back in usd_by_day]
    if len(samples) < len(backs):
        return Decimal(0)
    return median(samples) * (1 + _WIDTH * _LEAST_DEVIATION)


def _judge(series: SpendSeries, day: date) -> UnusualSpend | None:
    usd = series.usd_by_day.get(day, Decimal(0))
    if usd < _MIN_EXCESS_USD or usd < _least_unusual(series.usd_by_day, day):
        return None
    band = band_of(series.usd_by_day, day)
    if band is None:
        return None
    if usd < max(band.upper + _MIN_EXCESS_USD, band.upper * (1 + _MIN_EXCESS_SHARE)):
        return None
    return UnusualSpend(scope=series.scope, name=series.name, usd=usd, band=band)
