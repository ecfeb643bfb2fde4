"""Check that a report says what the reference says: the same findings, dollars to a millionth."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from detectors import Finding, Report
from tests.detectors.reference.audit import Outcome
from tests.detectors.reference.composition import Range
from tests.detectors.reference.reporting import Found

RELATIVE = 1e-6
ABSOLUTE = 2e-9  # US dollars: the report rounds to 9 decimals

_MOST_PAST = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def assert_agrees(report: Report, outcome: Outcome) -> None:
    assert_same_period(report, outcome)
    _assert_same_findings(report, outcome)
    _assert_same_sums(report, outcome)
    _assert_same_rest(report, outcome)
    _assert_same_totals(report, outcome)


def assert_same_period(report: Report, outcome: Outcome) -> None:
    audit, period = report.audit, outcome.projection
    assert audit.projection == period.kind
    assert audit.span_days == _near(period.span_days)
    assert audit.monthly_factor == pytest.approx(period.factor, rel=RELATIVE)
    assert audit.observed_days == period.observed_days
    assert audit.outlier_calls == len(period.strays)
    if outcome.metered:
        assert abs(_instant(audit.window_start) - period.window_start) <= 1


def _assert_same_findings(report: Report, outcome: Outcome) -> None:
    assert [_labels(f) for f in report.findings] == [_labels_of(f) for f in outcome.findings]
    for finding, found in zip(report.findings, outcome.findings, strict=True):
        expected = (found.low, found.monthly, found.high, found.observed)
        assert _dollars(finding) == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE), found.id


def _labels(finding: Finding) -> tuple[object, ...]:
    return (
        finding.id,
        finding.detector,
        finding.kind,
        finding.route,
        finding.provider,
        finding.model,
        finding.calls,
        finding.confidence,
        finding.severity,
        finding.suggested_model or "",
        _instant(finding.first_seen),
        _instant(finding.last_seen),
    )


def _labels_of(found: Found) -> tuple[object, ...]:
    return (
        found.id,
        found.detector,
        found.kind,
        found.route,
        found.provider,
        found.model,
        found.calls,
        found.confidence,
        found.severity,
        found.suggested_model,
        found.first_seen,
        found.last_seen,
    )


def _dollars(finding: Finding) -> tuple[float, ...]:
    return tuple(
        _usd(dollars)
        for dollars in (
            finding.impact_low,
            finding.monthly_cost_impact_usd,
            finding.impact_high,
            finding.observed_cost_impact_usd,
        )
    )


def _assert_same_sums(report: Report, outcome: Outcome) -> None:
    audit, sums = report.audit, outcome.sums
    assert _usd(audit.verified_savings_usd) == _near(sums.verified.stated)
    estimated = (
        audit.estimated_savings_low_usd,
        audit.estimated_savings_usd,
        audit.estimated_savings_high_usd,
    )
    conditional = (
        audit.conditional_savings_low_usd,
        audit.conditional_savings_usd,
        audit.conditional_savings_high_usd,
    )
    assert tuple(map(_usd, estimated)) == _near(_ends(sums.estimated))
    assert tuple(map(_usd, conditional)) == _near(_ends(sums.conditional))
    assert audit.savings_pct == pytest.approx(outcome.savings_pct, rel=RELATIVE, abs=1e-6)


def _assert_same_rest(report: Report, outcome: Outcome) -> None:
    """Compare what is not listed, and what happens no longer."""
    left = {rest.detector: (rest.findings, rest.informational) for rest in report.remainders}
    expected = outcome.listed.others
    assert left == {key: counts[:2] for key, counts in expected.items()}
    dollars = {rest.detector: _usd(rest.monthly_cost_impact_usd) for rest in report.remainders}
    assert dollars == _near({key: counts[2] for key, counts in expected.items()})
    past = {
        (p.detector, p.kind, p.route, p.provider, p.model): (
            (p.calls, p.confidence, _instant(p.first_seen), _instant(p.last_seen)),
            _usd(p.observed_cost_impact_usd),
        )
        for p in report.no_longer_happening
    }
    gone = {
        (g.detector, g.kind, g.group[0] or g.group[2], *g.group[1:]): (
            (g.calls, g.confidence, g.first_seen, g.last_seen),
            g.observed,
        )
        for g in outcome.no_longer
    }
    if len(past) == _MOST_PAST:  # others are not listed
        gone = {key: each for key, each in gone.items() if key in past}
    assert {key: labels for key, (labels, _) in past.items()} == {
        key: labels for key, (labels, _) in gone.items()
    }
    assert {key: dollars for key, (_, dollars) in past.items()} == _near(
        {key: dollars for key, (_, dollars) in gone.items()}
    )
    assert sum(line.groups for line in report.wider_limits) == len(outcome.only_high)


def _assert_same_totals(report: Report, outcome: Outcome) -> None:
    audit = report.audit
    assert audit.records == outcome.records
    assert audit.echoes_dropped == outcome.echoes_dropped
    assert audit.overfull_records == outcome.overfull_records
    assert audit.metered_calls == outcome.metered
    assert audit.equiv_spend == outcome.equiv_spend
    value = report.plan_usage.value_usd if report.plan_usage else Decimal(0)
    assert _usd(value) == _near(outcome.plan_value)
    assert _usd(audit.total_spend_usd) == _near(outcome.total_spend)
    assert _usd(audit.projected_spend_usd) == _near(outcome.projected_spend)
    models = {(each.provider, each.model): each.spend_usd for each in report.spend_by_model}
    assert {key: float(dollars) for key, dollars in models.items()} == _near(outcome.spend_by_model)
    days = {entry.day: float(entry.spend_usd) for entry in report.spend_by_day}
    assert days == _near(outcome.spend_by_day)
    unpriced = {(entry.provider, entry.model): entry.calls for entry in report.unpriced}
    assert unpriced == outcome.unpriced


def _ends(range_: Range) -> tuple[float, float, float]:
    return range_.low, range_.stated, range_.high


def _usd(dollars: Decimal | None) -> float:
    assert dollars is not None
    return float(dollars)


def _instant(text: str | None) -> int:
    """Return the microseconds since 1970 of a time in a report."""
    assert text is not None
    moment = datetime.fromisoformat(text)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _near(expected: Any) -> object:
    known = dict(expected) if isinstance(expected, Mapping) else expected
    return pytest.approx(known, rel=RELATIVE, abs=ABSOLUTE)


def assert_ranked(report: Report) -> None:
    """Check the order: by monthly impact, ties by id; ids count per detector in that order."""
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
        assert min(limit, finding.calls, 1) <= len(costs) <= min(limit, finding.calls)
        assert {call.model for call in finding.evidence} <= {finding.model}
