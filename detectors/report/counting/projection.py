"""The period that monthly dollars are projected from.

Outliers are excluded: a few calls at times far from all others.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Final, Self

import msgspec

from detectors.contract import Thresholds

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US: Final = 86_400_000_000
_HOUR_US: Final = DAY_US // 24
_AS_OBSERVED: Final = Decimal(1)
_MARGIN: Final = 1e-6


class DayOfCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one day in UTC, priced or not; times are microseconds since 1970.

    `seconds` counts the distinct whole seconds with a call.
    """

    calls: int
    first_us: int
    last_us: int
    seconds: int

    @property
    def ends(self) -> tuple[int, int]:
        return self.first_us, self.last_us


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """The window whose dollars, times `factor`, are monthly dollars.

    `days` has no outliers. The window includes both of its ends; without calls it is empty. `calls`
    are those of the days that it includes or cuts. `kind` is `good`, `rough`, `very rough` or
    `none`.
    """

    days: tuple[DayOfCalls, ...]
    calls: int
    outliers: int
    outlier_us: tuple[int, ...]
    span_us: Fraction
    window_us: Fraction
    from_us: int
    to_us: int
    window_start_us: int | None
    factor: Decimal
    kind: str

    @classmethod
    def of(
        cls,
        days: Sequence[DayOfCalls],
        thresholds: Thresholds,
        least_days: int = 0,
        *,
        keeps_newest: bool = False,
    ) -> Self:
        """Return the projection of a log with these days, in order.

        Nothing is projected from fewer observed days than `least_days`. With `keeps_newest`, no
        calls at the end are outliers.
        """
        kept, outliers = _drop_outliers(days, thresholds, keeps_newest=keeps_newest)
        month = thresholds.days_per_month * DAY_US
        span = _span(kept)
        first, last = (kept[0].first_us, kept[-1].last_us) if kept else (0, -1)
        is_long = span > month
        from_us = last - month + 1 if is_long else first
        calls = sum(day.calls for day in kept if day.last_us >= from_us)
        is_short = _observed_days(kept) < least_days
        kind = "none" if is_short else _kind(span, calls, thresholds)
        # So many days are the month, though the span lacks the hours around their calls.
        is_month = _observed_days(kept) >= thresholds.days_per_month
        is_observed = kind == "none" or is_month
        return cls(
            days=kept,
            calls=calls,
            outliers=sum(day.calls for day in outliers),
            outlier_us=tuple(dict.fromkeys(at for day in outliers for at in day.ends)),
            span_us=span,
            window_us=min(span, Fraction(month)),
            from_us=from_us,
            to_us=last,
            window_start_us=(last - month if is_long else first) if kept else None,
            factor=_AS_OBSERVED if is_observed else _divide(month, min(span, Fraction(month))),
            kind=kind,
        )

    def with_newest(self, newest: Iterable[tuple[int, int]], thresholds: Thresholds) -> Self:
        """Return the projection of a log with so many calls at the newest times of each day.

        Where the window begins within a day, how many of that day's calls it has depends on them.
        """
        cut = [day for day in self.days if day.first_us < self.from_us <= day.last_us]
        calls = self.calls - sum(day.calls for day in cut)
        for day in cut:
            calls += sum(n for at, n in newest if self.from_us <= at <= day.last_us)
        if self.kind == "none" or calls >= thresholds.projection_min_calls:
            return self
        return msgspec.structs.replace(self, calls=calls, kind="none", factor=_AS_OBSERVED)

    @property
    def first_us(self) -> int | None:
        return self.days[0].first_us if self.days else None

    @property
    def last_us(self) -> int | None:
        return self.days[-1].last_us if self.days else None

    @property
    def observed_days(self) -> int:
        """Return the calendar days in UTC from the first call to the last, both included."""
        return _observed_days(self.days) or 1


def _observed_days(days: Sequence[DayOfCalls]) -> int:
    return days[-1].last_us // DAY_US - days[0].first_us // DAY_US + 1 if days else 0


def _drop_outliers(
    days: Sequence[DayOfCalls], thresholds: Thresholds, *, keeps_newest: bool
) -> tuple[tuple[DayOfCalls, ...], tuple[DayOfCalls, ...]]:
    """Return the days without the outliers at both ends, and these.

    A gap between two days is the only kind that can be longer than a day, so outliers are
    all calls of some days.
    """
    most = max(1.0, sum(day.calls for day in days) * thresholds.outlier_share)
    gap = thresholds.outlier_gap_days * DAY_US
    is_far = [after.first_us - before.last_us > gap for before, after in pairwise(days)]
    front = _longest(days, is_far, most)
    back = 0 if keeps_newest else _longest(days[::-1], is_far[::-1], most)
    outliers = (*days[:front], *days[len(days) - back :])
    if sum(day.calls for day in outliers) > most + _MARGIN:
        return tuple(days), ()
    return tuple(days[front : len(days) - back]), outliers


def _longest(days: Sequence[DayOfCalls], is_far: Sequence[bool], most: float) -> int:
    """Return how many days at the front are outliers."""
    calls, longest = 0, 0
    for count, (day, ends) in enumerate(zip(days, is_far, strict=False), start=1):
        calls += day.calls
        if calls > most + _MARGIN:
            break
        longest = count if ends else longest
    return longest


def _span(days: Sequence[DayOfCalls]) -> Fraction:
    """Return the time from the first call to the last and one mean gap, in microseconds."""
    seconds = sum(day.seconds for day in days)
    if seconds < 2:
        return Fraction(0)
    return Fraction((days[-1].last_us - days[0].first_us) * seconds, seconds - 1)


def _kind(span: Fraction, calls: int, thresholds: Thresholds) -> str:
    least = {
        "good": Fraction(thresholds.good_span_days) * DAY_US,
        "rough": Fraction(thresholds.rough_span_days) * DAY_US,
        "very rough": Fraction(thresholds.very_rough_span_hours) * _HOUR_US,
    }
    if calls < thresholds.projection_min_calls:
        return "none"
    return next((kind for kind, shortest in least.items() if span >= shortest), "none")


def _divide(part: int, whole: Fraction) -> Decimal:
    ratio = part / whole
    return Decimal(ratio.numerator) / Decimal(ratio.denominator)


def iso_time(microseconds: int) -> str:
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat().replace("+00:00", "Z")
