"""Columns of spend over time for a page."""

from datetime import date, timedelta
from decimal import Decimal

from detectors.charts import MOST_SERIES, Columns, Marks, stacked_columns
from tests.cases import each_case

FIRST = date(2026, 3, 1)
Amounts = dict[date, dict[str | None, Decimal]]


def _chart(amounts: Amounts, days: int = 7, *names: str) -> Columns:
    named: dict[str | None, str] = {name: name.upper() for name in names}
    named[None] = "2 others"
    return stacked_columns(amounts, named, (FIRST, FIRST + timedelta(days=days - 1)))


def test_boxes_are_stacked_from_the_bottom_in_the_order_of_the_series() -> None:
    amounts: Amounts = {
        FIRST + timedelta(days=1): {"a": Decimal(2), None: Decimal(1), "b": Decimal(1)}
    }
    chart = _chart(amounts, 2, "a", "b")
    assert chart.amounts == ("$4.00", "$2.00", "$0")
    assert chart.outlines == (
        (0, "M1.12 500h.76v500h-.76z"),
        (1, "M1.12 250h.76v250h-.76z"),
        (MOST_SERIES, "M1.12 0h.76v250h-.76z"),
    )
    assert [(each.name, each.kind, each.total) for each in chart.series] == [
        ("A", 0, Decimal(2)),
        ("B", 1, Decimal(1)),
        ("2 others", MOST_SERIES, Decimal(1)),
    ]


def test_others_without_spend_are_no_series() -> None:
    assert [each.name for each in _chart({FIRST: {"a": Decimal(1)}}, 7, "a").series] == ["A"]


@each_case(
    ("days", "columns", "title", "unit", "last"),
    [
        (1, 1, "Spend by day", "Day", "Mar 1, 2026"),
        (62, 62, "Spend by day", "Day", "May 1, 2026"),
        (63, 9, "Spend by week", "Week", "Apr 26, 2026 to May 2, 2026"),
        (400, 58, "Spend by week", "Week", "Apr 4, 2027"),
        (500, 36, "Spend by 14 days", "Period", "Jul 4, 2027 to Jul 13, 2027"),
    ],
)
def test_many_days_share_columns_and_no_spend_is_lost(
    days: int, columns: int, title: str, unit: str, last: str
) -> None:
    amounts: Amounts = {FIRST + timedelta(days=at): {"a": Decimal("0.1")} for at in range(days)}
    chart = _chart(amounts, days, "a")
    assert (len(chart.columns), chart.title, chart.unit) == (columns, title, unit)
    assert chart.columns[-1].label == last
    assert sum(column.total for column in chart.columns) == Decimal("0.1") * days
    assert len(chart.dates) == columns


@each_case(
    ("days", "shown"),
    [(1, [0]), (2, [0, 1]), (7, [0, 2, 4, 6]), (30, [0, 7, 14, 22, 29]), (9, [0, 2, 4, 6, 8])],
)
def test_the_axis_has_its_first_and_last_date_and_some_between(days: int, shown: list[int]) -> None:
    dates = _chart({}, days).dates
    assert [at for at, label in enumerate(dates) if label] == shown
    assert dates[0] == "Mar 1"


def test_a_day_without_spend_has_an_empty_column() -> None:
    chart = _chart({}, 3, "a")
    assert chart.outlines == ()
    assert chart.columns[2].parts == ()
    assert [column.is_late for column in chart.columns] == [False, False, True]
    assert chart.summary == "$0.00 in 3 days; peak: $0.00 on Mar 1, 2026 (UTC)."


def test_the_reasons_of_a_column_of_several_days_are_sentences() -> None:
    reasons = {FIRST: "Unusual: a", FIRST + timedelta(days=1): "", FIRST + timedelta(days=2): "b"}
    days = (FIRST, FIRST + timedelta(days=69))
    chart = stacked_columns({}, {"a": "A"}, days, Marks(reasons=reasons))
    assert [column.reason for column in chart.columns if column.reason] == ["Unusual: a. b"]
