"""Days are compared with the same weekday of the eight weeks before them."""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal

import pytest

from service.operations.watching.unusual_days import (
    ACCOUNT,
    ROUTE,
    Band,
    SpendSeries,
    band_of,
    find_unusual,
)
from tests.cases import each_case
from tests.service.operations.watching.seasons import DAYS, FIRST, Season, make_season
from tests.worker.support.promises import sampled

LAST = date(2026, 9, 28)  # a Monday


def _history(dollars: Callable[[date], float], days: int = 90) -> dict[date, Decimal]:
    """Spend of the days before `LAST`."""
    past = [LAST - timedelta(days=back) for back in range(1, days + 1)]
    return {day: Decimal(str(dollars(day))) for day in past}


def _unusual(usd: str, history: dict[date, Decimal]) -> bool:
    series = SpendSeries(ROUTE, "chat", history | {LAST: Decimal(usd)})
    return bool(find_unusual([series], LAST))


@pytest.mark.parametrize("seed", sampled(range(20), 20))
def test_planted_days_are_found_and_hardly_anything_else(seed: int) -> None:
    season, found, false = make_season(seed), set(), 0
    for number in range(DAYS):
        day = FIRST + timedelta(days=number)
        for each in find_unusual(season.series, day):
            found.add((day, each.name))
            false += not season.explains(day, each.scope, each.name)
    assert len(season.planted & found) >= 19
    assert false <= DAYS / 30


def test_a_band_is_of_its_weekday_and_hides_no_other_day() -> None:
    by_week = (100, 80, 120, 60, 100, 80, 120, 140)  # newest first
    history = _history(lambda day: by_week[(LAST - day).days // 7 % 8])
    for week, usd in enumerate(by_week, 1):
        history[LAST - timedelta(days=7 * week)] = Decimal(usd)
    # The deviations from 100 are 0, 20, 20, 40, 0, 20, 20 and 40.
    assert band_of(history, LAST) == Band(Decimal(100), 100 + 3 * Decimal("1.4826") * 20)
    # A weekend is compared with weekends.
    history = _history(lambda day: 30 if day.weekday() >= 5 else 100)
    saturday = LAST - timedelta(days=2)
    series = SpendSeries(ROUTE, "chat", history | {saturday: Decimal(100)})
    assert find_unusual([series], saturday)
    assert not _unusual("100", history)
    # A day must be a dollar and a third above its band.
    large, small = _history(lambda _day: 100), _history(lambda _day: 1)
    assert band_of(large, LAST) == Band(Decimal(100), Decimal(145))
    assert not _unusual("188.49", large)  # 145 × 1.3 = 188.50
    assert _unusual("188.50", large)
    assert not _unusual("2.44", small)  # 1.45 + 1
    assert _unusual("2.45", small)
    # An earlier unusual day hides no other.
    history = _history(lambda _day: 100)
    history[LAST - timedelta(days=7)] = Decimal(900)
    assert _unusual("300", history)
    # A day far below is not unusual.
    assert not _unusual("0", _history(lambda _day: 100))
    # Steady growth is usual.
    # Spend that doubles each month is expected to go on.
    history = _history(lambda day: 100 * 2 ** ((day - LAST).days / 30))
    assert not _unusual("100", history)
    assert _unusual("300", history)


@each_case(("days", "is_found"), [(1, False), (20, False), (21, True)])
def test_three_weeks_of_history_come_first(days: int, is_found: bool) -> None:
    assert _unusual("1000", _history(lambda _day: 10, days)) is is_found


def test_a_monthly_job_is_usual_the_second_time_and_its_double_is_not() -> None:
    a_month_ago = LAST - timedelta(days=30)
    history = _history(lambda day: 50 if day == a_month_ago else 0)
    assert not _unusual("55", history)
    assert _unusual("100", history)


def test_the_largest_excess_is_first() -> None:
    usual = _history(lambda _day: 10)
    series = [
        SpendSeries(ROUTE, "small", usual | {LAST: Decimal(30)}),
        SpendSeries(ACCOUNT, "", usual | {LAST: Decimal(90)}),
        SpendSeries(ROUTE, "large", usual | {LAST: Decimal(60)}),
    ]
    found = find_unusual(series, LAST)
    assert [(each.name, each.excess) for each in found] == [
        ("", Decimal(80)),
        ("large", Decimal(50)),
        ("small", Decimal(20)),
    ]


def test_the_made_up_spend_is_the_same_each_time() -> None:
    first, again = make_season(3), make_season(3)
    assert isinstance(first, Season)
    assert first == again
    assert first != make_season(4)
