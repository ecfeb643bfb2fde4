"""Whether a report says what the reference says: the same findings, dollars to a millionth."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from detectors import Finding, Report
from tests.detectors.reference.audit import Line, Outcome

RELATIVE = 1e-6
ABSOLUTE = 2e-9  # US dollars: the report rounds to 9 decimals

Key = tuple[str, str, str, str, str, int, str, str, str]


def assert_agrees(report: Report, outcome: Outcome) -> None:
    _assert_same_findings(report.findings, outcome.lines)
    _assert_same_totals(report, outcome)
    assert _spend_by_model(report) == _near(outcome.spend_by_model)
    assert {entry.day: float(entry.spend_usd) for entry in report.spend_by_day} == _near(
        outcome.spend_by_day
    )
    unpriced = {(entry.provider, entry.model): entry.calls for entry in report.unpriced}
    assert unpriced == outcome.unpriced


def _assert_same_findings(findings: Iterable[Finding], lines: Iterable[Line]) -> None:
    theirs = sorted((_key(finding), _dollars(finding)) for finding in findings)
    ours = sorted((_line_key(line), (line.monthly, line.observed)) for line in lines)
    assert [key for key, _ in theirs] == [key for key, _ in ours]
    for (key, dollars), (_, expected) in zip(theirs, ours, strict=True):
        assert dollars == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE), key


def _assert_same_totals(report: Report, outcome: Outcome) -> None:
    audit = report.audit
    assert audit.records == outcome.records
    assert audit.echoes_dropped == outcome.echoes_dropped
    assert audit.overfull_records == outcome.overfull_records
    assert audit.observed_days == outcome.observed_days
    assert audit.equiv_spend == outcome.equiv_spend
    assert audit.below_floor == outcome.below_floor
    assert audit.savings_pct == pytest.approx(outcome.savings_pct, rel=RELATIVE, abs=1e-6)
    for dollars, expected in (
        (audit.total_spend_usd, outcome.total_spend),
        (audit.projected_spend_usd, outcome.projected_spend),
        (audit.projected_savings_usd, outcome.projected_savings),
    ):
        assert float(dollars) == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE)


def _key(finding: Finding) -> Key:
    return (
        finding.detector,
        finding.kind,
        finding.route,
        finding.provider,
        finding.model,
        finding.calls,
        finding.severity,
        finding.confidence,
        finding.suggested_model or "",
    )


def _line_key(line: Line) -> Key:
    return (
        line.detector,
        line.kind,
        line.route,
        line.provider,
        line.model,
        line.calls,
        line.severity,
        line.confidence,
        line.suggested_model or "",
    )


def _dollars(finding: Finding) -> tuple[float, float]:
    return float(finding.monthly_cost_impact_usd), float(finding.observed_cost_impact_usd)


def _spend_by_model(report: Report) -> dict[tuple[str, str], float]:
    return {
        (entry.provider, entry.model): float(entry.spend_usd) for entry in report.spend_by_model
    }


def _near(dollars: Mapping[Any, float]) -> object:
    return pytest.approx(dict(dollars), rel=RELATIVE, abs=ABSOLUTE)


def assert_ranked(report: Report) -> None:
    """By monthly impact, ties by id; ids count per detector in that order."""
    ranks = [(-finding.monthly_cost_impact_usd, finding.id) for finding in report.findings]
    assert ranks == sorted(ranks)
    for short in {finding.detector[:2] for finding in report.findings}:
        ids = [finding.id for finding in report.findings if finding.id.startswith(short)]
        assert ids == [f"{short}-{number:03}" for number in range(1, len(ids) + 1)]


def assert_evidence(report: Report) -> None:
    """Check that evidence is the most expensive flagged calls, no more than the limit."""
    limit = report.thresholds.evidence_calls
    for finding in report.findings:
        costs = [call.cost_usd for call in finding.evidence]
        assert costs == sorted(costs, reverse=True)
        assert len(costs) == min(limit, finding.calls)
        assert all(isinstance(call.cost_usd, Decimal) for call in finding.evidence)
        assert {call.model for call in finding.evidence} <= {finding.model}
