"""Projections of short logs against the true month, on a fortnight with a weekly rhythm.

`benchmarks/accuracy/projections.py` measures the same with whole audits, also on real arrivals.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median

import pytest

from benchmarks.accuracy.projections import DAYS, GOLDEN, WINDOWS, drawn_hours
from detectors import Thresholds
from detectors.report.counting.projection import DAY_US, DayOfCalls, Projection

PARTS = 21  # of each length
MORE_PARTS = 42
SECOND = 1_000_000
HOUR = 3_600 * SECOND
THRESHOLDS = Thresholds()
FIRST = 20_000 * DAY_US
Call = tuple[int, int]  # microseconds, and tokens that stand for dollars
AT, USD = itemgetter(0), itemgetter(1)


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return sorted(
        (FIRST + hour * HOUR + round(second * SECOND), prompt)
        for hour, arrivals in enumerate(drawn_hours(200, seed=14))
        for second, prompt, _ in arrivals
    )


def month(calls: Sequence[Call]) -> float | None:
    """The dollars of a month, projected as the report does it; None without a projection."""
    days = [_day([at for at, _ in each]) for _, each in groupby(calls, lambda c: c[0] // DAY_US)]
    projection = Projection.of(days, THRESHOLDS)
    if projection.kind == "none":  # a log of a quiet hour may be a little too short
        return None
    first = bisect_left(calls, projection.from_us, key=AT)
    last = bisect_right(calls, projection.to_us, key=AT)
    spent: int = sum(map(USD, calls[first:last]))
    return spent * float(projection.factor)


def _day(times: Sequence[int]) -> DayOfCalls:
    return DayOfCalls(
        calls=len(times),
        first_us=times[0],
        last_us=times[-1],
        seconds=len({at // SECOND for at in times}),
    )


def part(calls: Sequence[Call], start: float, hours: float) -> list[Call]:
    begin = FIRST + round(start * HOUR)
    ends = (begin, begin + hours * HOUR)
    first, last = (bisect_left(calls, end, key=AT) for end in ends)
    return list(calls[first:last])


@pytest.mark.parametrize("parts", [PARTS, pytest.param(MORE_PARTS, marks=pytest.mark.stress)])
@pytest.mark.parametrize("hours", WINDOWS.values(), ids=WINDOWS)
def test_half_of_all_projections_are_over_and_half_under_the_true_month(
    calls: list[Call], hours: int, parts: int
) -> None:
    truth = sum(usd for _, usd in calls) * 30 / DAYS
    latest = 24 * DAYS - hours - 1
    # A log of an hour is a little longer, or nothing would be projected from it.
    logs = [part(calls, latest * (n * GOLDEN % 1), hours + 1 / 30) for n in range(parts)]
    months = [projected for each in logs if (projected := month(each)) is not None]
    assert len(months) > parts / 2
    assert 0.9 <= median(months) / truth <= 1.1


def test_outliers_and_midnight_change_monthly_dollars_by_less_than_a_percent(
    calls: list[Call],
) -> None:
    day = part(calls, 36, 24)
    long_ago = (FIRST - 20 * 365 * DAY_US, 1_000)
    assert month(day)
    assert month([long_ago, *day]) == pytest.approx(month(day), rel=0.01)
    # Crossing midnight changes monthly dollars by less than a percent.
    day = part(calls, 24, 24)
    later = [(at + 7 * HOUR, usd) for at, usd in day]
    assert later[0][0] // DAY_US < later[-1][0] // DAY_US
    assert month(later) == pytest.approx(month(day), rel=0.01)
