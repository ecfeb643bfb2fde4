"""The report of a batch has the batch's own dollars, and nothing monthly."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

import detectors
from detectors.contract import Report
from detectors.wording.headline import sentence, tiles
from detectors.wording.impact import impact
from detectors.wording.imports import as_import
from detectors.wording.projection import caution


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


@pytest.mark.parametrize("hours", [0.5, 2, 100])
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
