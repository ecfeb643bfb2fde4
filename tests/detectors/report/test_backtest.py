"""Projections of short logs against the true month, on a fortnight with a weekly rhythm.

`benchmarks/accuracy/projections.py` measures the same with whole audits, also on real arrivals.
"""

from collections.abc import Sequence
from itertools import groupby
from statistics import median

import pytest

from benchmarks.accuracy.projections import DAYS, GOLDEN, WINDOWS, drawn_hours
from detectors import Thresholds
from detectors.report.counting.projection import DAY_US, DayOfCalls, Projection

PARTS = 42  # of each length
SECOND = 1_000_000
HOUR = 3_600 * SECOND
THRESHOLDS = Thresholds()
FIRST = 20_000 * DAY_US
Call = tuple[int, int]  # microseconds, and tokens that stand for dollars


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
    spent = sum(usd for at, usd in calls if projection.from_us <= at <= projection.to_us)
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
    return [each for each in calls if begin <= each[0] < begin + hours * HOUR]


@pytest.mark.parametrize("hours", WINDOWS.values(), ids=WINDOWS)
def test_half_of_all_projections_are_over_and_half_under_the_true_month(
    calls: list[Call], hours: int
) -> None:
    truth = sum(usd for _, usd in calls) * 30 / DAYS
    latest = 24 * DAYS - hours - 1
    # A log of an hour is a little longer, or nothing would be projected from it.
    parts = [part(calls, latest * (n * GOLDEN % 1), hours + 1 / 30) for n in range(PARTS)]
    months = [projected for each in parts if (projected := month(each)) is not None]
    assert len(months) > PARTS / 2
    assert 0.9 <= median(months) / truth <= 1.1


def test_an_outlier_changes_monthly_dollars_by_less_than_a_percent(calls: list[Call]) -> None:
    day = part(calls, 36, 24)
    long_ago = (FIRST - 20 * 365 * DAY_US, 1_000)
    assert month(day)
    assert month([long_ago, *day]) == pytest.approx(month(day), rel=0.01)


def test_crossing_midnight_changes_monthly_dollars_by_less_than_a_percent(
    calls: list[Call],
) -> None:
    day = part(calls, 24, 24)
    later = [(at + 7 * HOUR, usd) for at, usd in day]
    assert later[0][0] // DAY_US < later[-1][0] // DAY_US
    assert month(later) == pytest.approx(month(day), rel=0.01)
