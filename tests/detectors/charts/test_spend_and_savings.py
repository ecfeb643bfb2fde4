"""The chart of many audits: what each day spent, and which part of it was avoidable."""

from datetime import date, timedelta
from decimal import Decimal
from xml.etree import ElementTree

from detectors.charts import spend_and_savings

DAY = date(2026, 3, 1)


def test_each_day_is_listed_with_its_avoidable_spend() -> None:
    chart = spend_and_savings(
        {DAY: (Decimal(300), Decimal(60)), DAY + timedelta(days=2): (Decimal(40), Decimal(0))}
    )
    assert chart.columns == ("Audited (UTC)", "Spend", "Avoidable spend")
    assert chart.rows == (("Mar 1, 2026", "$300.00", "$60.00"), ("Mar 3, 2026", "$40.00", "$0.00"))
    assert chart.summary == "$340.00 in 3 days; peak: $300.00 on Mar 1, 2026."
    assert "Other spend" in chart.svg
    assert "Avoidable spend" in chart.svg


def test_a_quarter_is_drawn_by_weeks_and_stays_small() -> None:
    days = {DAY + timedelta(days=one): (Decimal(100), Decimal(10)) for one in range(90)}
    chart = spend_and_savings(days)
    assert chart.rows[0] == ("Mar 1, 2026 to Mar 7, 2026", "$700.00", "$70.00")
    assert len(chart.rows) == 13
    assert len(chart.svg) < 10_000


def test_without_audits_it_says_so() -> None:
    chart = spend_and_savings({})
    ElementTree.fromstring(chart.svg)
    assert chart.rows == ()
    assert chart.summary == "No calls could be priced."
