"""The forecast for the month is what was spent, and a usual day for each day that is left."""

from datetime import date, timedelta
from decimal import Decimal

from service.operations.watching.forecast import forecast_month

TODAY = date(2026, 9, 21)  # a Monday; nine days of September are left


def _days(dollars: int, first: date, last: date) -> dict[date, Decimal]:
    length = (last - first).days + 1
    return {first + timedelta(days=number): Decimal(dollars) for number in range(length)}


def test_the_days_left_cost_what_their_weekday_usually_costs() -> None:
    days = _days(10, date(2026, 8, 1), TODAY)
    days |= {day: Decimal(2) for day in days if day.weekday() >= 5}
    # 15 weekdays and 6 weekend days until today; 7 weekdays and 2 weekend days are left.
    assert forecast_month(days, TODAY) == 15 * 10 + 6 * 2 + 7 * 10 + 2 * 2
    # Today counts in full.
    days = _days(10, date(2026, 8, 1), TODAY)
    assert forecast_month(days | {TODAY: Decimal(1)}, TODAY) == 300
    assert forecast_month(days | {TODAY: Decimal(25)}, TODAY) == 315
    # An unusual day is spent and not expected again.
    days = _days(10, date(2026, 8, 1), TODAY)
    assert forecast_month(days | {date(2026, 9, 15): Decimal(500)}, TODAY) == 790
    # A first day has a forecast.
    first = date(2026, 9, 1)
    assert forecast_month(_days(10, date(2026, 8, 1), date(2026, 8, 31)), first) == 300
    # A last day is what was spent.
    last = date(2026, 9, 30)
    assert forecast_month(_days(10, date(2026, 8, 1), last), last) == 300
    # Older spend changes nothing.
    days = _days(10, date(2026, 8, 24), TODAY)
    assert forecast_month(days | _days(90, date(2026, 6, 1), date(2026, 8, 23)), TODAY) == 300
    # A week of history comes first.
    assert forecast_month(_days(10, TODAY - timedelta(days=6), TODAY), TODAY) is None
    assert forecast_month({}, TODAY) is None
    assert forecast_month(_days(10, TODAY - timedelta(days=7), TODAY), TODAY) == 80 + 90
