"""The report of a batch has the batch's own dollars, and nothing monthly."""

import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from itertools import chain

import detectors
from detectors.charts.ranked import findings_ranked
from detectors.charts.waterfall import savings_waterfall
from detectors.contract import Report
from detectors.wording.findings_csv import print_findings
from detectors.wording.headline import sentence, short_title, tiles
from detectors.wording.impact import amount, how_sure, impact
from detectors.wording.imports import as_import
from detectors.wording.projection import caution
from detectors.wording.tail import footnotes
from tests.cases import each_case


def batch(hours: float) -> Report:
    """Return the report of 60 short answers of a flagship model."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    calls = [
        {
            "ts": (start + timedelta(hours=hours * number / 59)).isoformat(),
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 40_000,
            "completion_tokens": 5,
            "tag": "short",
        }
        for number in range(60)
    ]
    return Report.from_json(detectors.audit(calls).to_json())


@each_case("hours", [0.5, 2, 100])
def test_a_batch_shows_its_own_dollars(hours: float) -> None:
    report = batch(hours)
    shown = as_import(report)
    assert sentence(shown).startswith("You spent $6.00 in this import.")
    assert caution(shown.audit).startswith("Too little data to project a month.")
    assert tiles(shown.audit)[0].label == "Spend in this import"
    for before, after in zip(report.findings, shown.findings, strict=True):
        assert impact(after, shown.audit).endswith((" in this import", "no savings claimed"))
        observed = before.observed_cost_impact_usd
        assert abs(after.monthly_cost_impact_usd - observed) < Decimal("0.01")
        assert "month" not in after.formula
    assert shown.findings
    assert "month" not in sentence(shown)


def test_a_batch_with_calls_of_a_week_is_projected_as_any_log() -> None:
    report = batch(24 * 7)
    assert as_import(report) == report
    assert "/month" in sentence(report)


def waste() -> Report:
    """Return the report of 40 calls in 80 minutes, all but one of them avoidable."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    calls = [
        {
            # Bursts of five equal calls, ten minutes apart.
            "ts": (start + timedelta(minutes=11 * (number // 5), seconds=number % 5)).isoformat(),
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 25_000,
            "completion_tokens": 40,
            "tag": "retry",
            "prefix_hash": f"{number % 5 // 3:064x}",
        }
        for number in range(40)
    ]
    return Report.from_json(detectors.audit(calls).to_json())


def test_no_amount_of_a_batch_is_monthly_or_more_than_its_calls_cost() -> None:
    report = waste()
    assert report.audit.projection == "very rough"
    assert max(_dollars(report)) > 100 * report.audit.total_spend_usd
    assert max(_dollars(as_import(report))) == Decimal("2.52")  # the spend, in cents
    # The steps of a batch add up to what remains.
    rows = savings_waterfall(as_import(waste())).rows
    amounts = [Decimal(row[2].replace("−", "-").replace("$", "")) for row in rows]
    assert abs(sum(amounts[:-1]) - amounts[-1]) <= Decimal("0.02")
    # A batch has the severity of its own dollars.
    report = waste()
    assert {each.severity for each in report.findings if each.monthly_cost_impact_usd > 500}
    assert {each.severity for each in as_import(report).findings} == {"low"}
    # The table of a batch has no monthly column.
    report = waste()
    assert "monthly_cost_impact_usd" in print_findings(report).splitlines()[0]
    assert "monthly" not in print_findings(as_import(report)).splitlines()[0]


def _dollars(report: Report) -> list[Decimal]:
    """Return every amount that the report's charts, texts and tables show, and its steps."""
    shown = [
        *chain.from_iterable(savings_waterfall(report).rows),
        *chain.from_iterable(findings_ranked(report).rows),
        *footnotes(report),
        sentence(report),
        short_title(report.audit),
        *chain.from_iterable(tiles(report.audit)),
        *(text for each in report.findings for text in (amount(each), how_sure(each))),
    ]
    amounts = re.findall(r"\$([\d,]+(?:\.\d+)?)", " ".join(shown))
    table = list(csv.DictReader(StringIO(print_findings(report))))
    columns = ("monthly_cost_impact_usd", "impact_low", "impact_high", "observed_cost_impact_usd")
    cells = [row[name] for row in table for name in columns if row.get(name)]
    return [Decimal(each.replace(",", "")) for each in (*amounts, *cells)]
