"""Charts of report documents: what they show, how large they get, and what labels cannot do."""

from collections.abc import Callable
from decimal import Decimal
from xml.etree import ElementTree

from msgspec.structs import replace

import detectors
from detectors import Report, charts
from detectors.charts import Chart
from detectors.charts.chart import WIDTH
from detectors.contract import Others, SavingsByDetector, SpendByDay, SpendByModel
from tests.cases import each_case
from tests.detectors.reports import make_report
from tests.service.support.scaled_reports import (
    HOSTILE_LABELS,
    make_hostile_report,
    make_scaled_report,
)

CHARTS: tuple[Callable[[Report], Chart], ...] = (
    charts.savings_waterfall,
    charts.spend_by_day,
    charts.spend_by_model,
    charts.spend_by_route,
)
SVG = "{http://www.w3.org/2000/svg}"


def _texts(chart: Chart) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(chart.svg).iter(f"{SVG}text")]


@each_case("draw", CHARTS)
@each_case(
    "make",
    [
        lambda: detectors.audit([]),
        lambda: make_scaled_report(findings=0, days=1, records=1, models=1),
        lambda: make_scaled_report(findings=400, days=400, records=10_000_000, models=200),
        make_hostile_report,
    ],
)
def test_a_chart_is_one_bounded_drawing_with_a_title_and_a_summary(
    draw: Callable[[Report], Chart], make: Callable[[], Report]
) -> None:
    chart = draw(make())
    drawing = ElementTree.fromstring(chart.svg)
    assert len(chart.svg) < 20_000
    assert len(chart.rows) <= 64
    assert (drawing.findtext(f"{SVG}title"), drawing.findtext(f"{SVG}desc")) == (
        chart.title,
        chart.summary,
    )
    assert {one.tag.removeprefix(SVG) for one in drawing} <= {"title", "desc", "text", "path"}
    assert not [one for one in drawing.iter() if "style" in one.attrib]
    assert all(len(row) == len(chart.columns) for row in chart.rows)


@each_case("draw", CHARTS)
def test_the_same_document_gives_the_same_drawing(draw: Callable[[Report], Chart]) -> None:
    report = make_scaled_report()
    assert draw(report) == draw(Report.from_json(report.to_json()))


def test_the_waterfall_goes_from_current_to_remaining_spend() -> None:
    report = replace(
        make_report(),
        savings_by_detector=(
            SavingsByDetector(
                detector="d1_model_overkill", alone_usd=Decimal(3000), composed_usd=Decimal(3000)
            ),
            SavingsByDetector(
                detector="d4_duplicate_calls", alone_usd=Decimal(200), composed_usd=Decimal(140)
            ),
            SavingsByDetector(
                detector="d6_chatty_loop", alone_usd=Decimal(0), composed_usd=Decimal(0)
            ),
        ),
    )
    chart = charts.savings_waterfall(report)
    assert chart.rows == (
        ("Current spend", "", "$10,000", "100%"),
        ("Oversized model", "−$3,000", "−$3,000", "30%"),
        ("Duplicate calls", "−$200", "−$140", "1.4%"),
        ("Remaining spend", "", "$6,860", "68.6%"),
    )


@each_case(
    ("spend", "saved", "printed"),
    [
        ("8144.49", ("95.51", "237.51", "11.51"), ("$8,144", "−$96", "−$238", "−$12", "$7,798")),
        ("10.40", ("0.93",), ("$10", "−$0.93", "$9.47")),
        ("100.40", ("60.40", "60.40"), ("$100", "−$60", "−$60", "$0.00")),
    ],
)
def test_the_steps_that_are_printed_add_up(
    spend: str, saved: tuple[str, ...], printed: tuple[str, ...]
) -> None:
    report = make_report()
    amounts = [Decimal(each) for each in saved]
    total = Decimal(spend)
    audit = replace(
        report.audit,
        projected_spend_usd=total,
        projected_savings_usd=min(sum(amounts, Decimal(0)), total),
    )
    by_detector = tuple(
        SavingsByDetector(detector=f"d{number}", alone_usd=each, composed_usd=each)
        for number, each in enumerate(amounts)
    )
    chart = charts.savings_waterfall(replace(report, audit=audit, savings_by_detector=by_detector))
    assert tuple(row[2] for row in chart.rows) == printed
    assert chart.summary.endswith(f"remaining spend: {printed[-1]}.")


def test_a_fix_that_costs_more_is_a_step_up() -> None:
    savings = SavingsByDetector(
        detector="d2_missed_caching", alone_usd=Decimal(-5), composed_usd=Decimal(-5)
    )
    chart = charts.savings_waterfall(replace(make_report(), savings_by_detector=(savings,)))
    assert chart.rows[1][1:3] == ("$5.00", "$5.00")


def test_the_table_of_days_holds_every_models_part() -> None:
    chart = charts.spend_by_day(make_scaled_report(days=14, models=8))
    assert chart.title == "Spend by day"
    assert chart.columns[-1] == "Other models"
    assert len(chart.columns) == 8
    assert len(chart.rows) == 14


def test_a_model_is_named_with_its_provider_where_another_sells_it_too() -> None:
    report = make_scaled_report(models=1)
    name = report.spend_by_model[0].model
    other = SpendByModel(provider="azure", model=name, calls=1, spend_usd=Decimal(1))
    daily = replace(report.spend_by_day_and_model[0], provider="azure", spend_usd=Decimal(1))
    chart = charts.spend_by_day(
        replace(
            report,
            spend_by_model=(*report.spend_by_model, other),
            spend_by_day_and_model=(*report.spend_by_day_and_model, daily),
        )
    )
    assert set(chart.columns[2:]) == {f"{name} (openai)", f"{name} (azure)"}


@each_case(
    ("days", "title"),
    [
        (62, "Spend by day"),
        (63, "Spend by week"),
        (434, "Spend by week"),
        (435, "Spend by 14 days"),
    ],
)
def test_a_long_log_has_a_bar_for_several_days(days: int, title: str) -> None:
    chart = charts.spend_by_day(make_scaled_report(days=days))
    assert chart.title == title
    assert len(chart.rows) <= 62


def test_days_without_calls_are_gaps_and_in_no_table() -> None:
    days = (
        SpendByDay(day="2026-02-01", calls=1, spend_usd=Decimal(1)),
        SpendByDay(day="2026-02-05", calls=1, spend_usd=Decimal(3)),
    )
    chart = charts.spend_by_day(replace(make_report(), spend_by_day=days))
    assert [row[:2] for row in chart.rows] == [("Feb 1, 2026", "$1.00"), ("Feb 5, 2026", "$3.00")]
    assert chart.columns[2:] == ("All models",)
    assert chart.summary == "$4.00 in 5 days; peak: $3.00 on Feb 5, 2026."
    assert [text for text in _texts(chart) if "UTC" in text] == ["Feb 1, 2026 (UTC)"]


def test_entries_that_are_not_drawn_are_summed() -> None:
    report = replace(
        make_scaled_report(models=12), other_models=Others(count=3, calls=5, spend_usd=Decimal(7))
    )
    chart = charts.spend_by_model(report)
    rest = sum((one.spend_usd for one in report.spend_by_model[10:]), Decimal(7))
    assert _texts(chart)[-2] == "5 other models"
    assert f"${rest:,.2f}" in _texts(chart)[-1]
    assert chart.rows[-1][0] == "3 other models"


def test_calls_without_tag_and_endpoint_have_a_name() -> None:
    report = make_scaled_report(models=1)
    unnamed = replace(report.spend_by_route[0], route="")
    chart = charts.spend_by_route(replace(report, spend_by_route=(unnamed,)))
    assert chart.rows[0][0] == "no tag or endpoint"


@each_case("label", HOSTILE_LABELS)
def test_a_label_is_text_and_leaves_room_for_its_number(label: str) -> None:
    report = make_scaled_report(models=1, labels=(label,))
    shown, value = _texts(charts.spend_by_route(report))
    assert "\u202e" not in shown
    assert len(shown) * 7.8 + len(value) * 8 < WIDTH + 8 * 8
    assert not shown.endswith("…") or len(shown) > 10


def test_days_that_cost_nothing_are_drawn_as_nothing() -> None:
    free = SpendByDay(day="2026-02-01", calls=5, spend_usd=Decimal(0))
    chart = charts.spend_by_day(replace(make_report(), spend_by_day=(free,)))
    assert chart.rows == ()
    assert "$0" in _texts(chart)


def test_a_part_too_small_to_see_is_in_the_legend() -> None:
    report = make_scaled_report(days=1, models=1)
    large, small = report.spend_by_day_and_model[0], Decimal("0.01")
    daily = replace(large, model="rare", spend_usd=small)
    chart = charts.spend_by_day(
        replace(
            report,
            spend_by_day=(replace(report.spend_by_day[0], spend_usd=large.spend_usd + small),),
            spend_by_model=(
                *report.spend_by_model,
                replace(report.spend_by_model[0], model="rare"),
            ),
            spend_by_day_and_model=(large, daily),
        )
    )
    assert _texts(chart)[-1] == "rare"
    assert chart.svg.count('<path class="s1"') == 1
