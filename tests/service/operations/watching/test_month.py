"""The month of today, beside the last one and beside what was to be expected."""

from datetime import date, timedelta
from decimal import Decimal

from service.operations.watching.month import HISTORY_DAYS, Month, days_needed, look_at_month
from tests.cases import each_case

TODAY = date(2026, 9, 21)  # a Monday
MONTH = date(2026, 9, 1)
EARLY = date(2026, 7, 7)


def _days(usd: int, first: date, last: date) -> dict[date, Decimal]:
    return {first + timedelta(days=at): Decimal(usd) for at in range((last - first).days + 1)}


def _look(usd_before: int, usd_since: int, first: date = EARLY) -> Month:
    before = _days(usd_before, first, MONTH - timedelta(days=1))
    return look_at_month(before | _days(usd_since, MONTH, TODAY), TODAY)


def test_this_month_is_compared_through_yesterday_with_the_same_days_of_the_last() -> None:
    month = _look(10, 12)
    assert month.spent_usd == 12 * 21
    assert month.closed_usd == 12 * 20
    assert month.previous_closed_usd == 10 * 20
    assert month.previous_usd == 310
    assert month.previous_closed == (date(2026, 8, 1), date(2026, 8, 20))
    assert month.previous_so_far == (date(2026, 8, 1), date(2026, 8, 21))
    assert (month.gap, month.forecast_gap) == ("", "")
    assert month.forecast_usd is not None


def test_a_last_month_that_is_known_in_part_is_not_compared() -> None:
    late = _look(10, 12, date(2026, 8, 12))
    assert late.gap == late.forecast_gap == "No comparison: data starts Aug 12"
    a_little_late = _look(10, 12, date(2026, 8, 3))
    assert (a_little_late.gap, a_little_late.forecast_gap) == ("", "")
    known = _days(10, EARLY, TODAY).items()
    with_holes = {day: usd for day, usd in known if day.day % 4 or day >= MONTH}
    gap = "No comparison: data on 15 of the 20 days before"
    assert look_at_month(with_holes, TODAY).gap == gap


def test_a_range_wider_than_a_factor_of_three_is_too_wide() -> None:
    steady = _look(10, 12).expected
    assert steady is not None
    assert not steady.is_wide
    days = _days(9, MONTH, TODAY)
    for at, usd in enumerate((2, 20, 4, 30, 3, 40, 5, 25)):
        monday = EARLY + timedelta(days=7 * at)
        days |= _days(usd, monday, monday + timedelta(days=6))
    wild = look_at_month(days, TODAY).expected
    assert wild is not None
    assert wild.is_wide


def test_long_and_short_months_and_first_days_are_compared() -> None:
    month = look_at_month(_days(1, date(2026, 1, 1), date(2026, 3, 31)), date(2026, 3, 31))
    assert month.previous_so_far == (date(2026, 2, 1), date(2026, 2, 28))
    assert month.previous_usd == 28
    # The first day has nothing to compare.
    month = look_at_month(_days(1, EARLY, MONTH), MONTH)
    first, last = month.previous_closed
    assert first > last
    assert month.expected is None


@each_case(
    ("usd", "verdict"), [(6, "below"), (8, "within"), (10, "within"), (13, "within"), (14, "above")]
)
def test_spend_within_30_percent_of_steady_weeks_is_expected(usd: int, verdict: str) -> None:
    expected = _look(10, usd).expected
    assert expected is not None
    assert [expected.low, expected.high] == [140, 260]
    assert (expected.first, expected.last) == (MONTH, TODAY - timedelta(days=1))
    assert expected.verdict == verdict


def test_the_range_is_as_wide_as_weeks_differ() -> None:
    days = _days(10, EARLY, TODAY) | {
        day: Decimal(0) for day in _days(0, EARLY, TODAY) if day.weekday() >= 5
    }
    expected = look_at_month(days, TODAY).expected
    assert expected is not None
    assert expected.usd == (expected.low + expected.high) / 2 == 140
    # Weeks that differ make the range wider.
    days = _days(10, EARLY, TODAY)
    wide = {day: usd * (1 + (day - EARLY).days // 7 % 2) for day, usd in days.items()}
    steady, uneven = look_at_month(days, TODAY).expected, look_at_month(wide, TODAY).expected
    assert steady is not None
    assert uneven is not None
    assert uneven.high / uneven.low > steady.high / steady.low if uneven.low else True
    # The days needed reach over the last month.
    assert days_needed(TODAY) == (MONTH - timedelta(days=HISTORY_DAYS), TODAY)


def test_it_takes_three_weeks_and_then_judges_the_days_after_them() -> None:
    assert look_at_month(_days(1, TODAY - timedelta(days=21), TODAY), TODAY).expected is None
    first = TODAY - timedelta(days=25)
    expected = look_at_month(_days(1, first, TODAY), TODAY).expected
    assert expected is not None
    assert expected.first == TODAY - timedelta(days=4)
    assert expected.usd == 4
    assert look_at_month({}, TODAY).expected is None
