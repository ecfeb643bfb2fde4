"""Traffic just under, on and just over every limit of the detectors."""

from dataclasses import fields
from functools import cache

import pytest

import detectors
from detectors import Report, Thresholds
from detectors.contract import UsageRecord
from tests.cases import each_case
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.boundaries import BOUNDARIES, Boundary
from tests.detectors.reference.compare import assert_agrees, assert_evidence
from tests.detectors.reference.limits import Limits

SIDES = (-1, 0, 1)
NO_FLOOR = Thresholds(floor_usd=0)


def _flagged(outcome: Outcome, boundary: Boundary) -> int:
    return sum(
        found.calls
        for found in outcome.findings
        if found.kind == boundary.kind
        and found.confidence == (boundary.confidence or found.confidence)
    )


@cache
def _logs(name: str) -> tuple[tuple[UsageRecord, ...], ...]:
    """Return the traffic just under, on and just over a limit."""
    boundary = BOUNDARIES[name]
    return tuple(tuple(boundary.build(boundary.limit + side * boundary.step)) for side in SIDES)


@cache
def _outcomes(name: str) -> tuple[Outcome, ...]:
    return tuple(audit(log, Limits.of(NO_FLOOR)) for log in _logs(name))


@cache
def _reports() -> dict[str, list[Report]]:
    """Return the reports of every limit's logs, which are audited together."""
    logs = [detectors.read(log) for name in BOUNDARIES for log in _logs(name)]
    reports = iter(detectors.audit_many(logs, thresholds=NO_FLOOR))
    return {name: [next(reports) for _ in SIDES] for name in BOUNDARIES}


@pytest.mark.stress
@each_case("name", BOUNDARIES)
def test_the_reference_keeps_every_limit(name: str) -> None:
    """By default, the audit agrees with it on both sides of each limit: the test below."""
    boundary = BOUNDARIES[name]
    assert tuple(_flagged(each, boundary) for each in _outcomes(name)) == boundary.flagged


@each_case("name", BOUNDARIES)
def test_audits_agree_on_every_limit(name: str) -> None:
    for report, outcome in zip(_reports()[name], _outcomes(name), strict=True):
        assert_agrees(report, outcome)
        assert_evidence(report)


@pytest.mark.stress
@pytest.mark.parametrize("name", BOUNDARIES)
def test_audits_alone_agree_on_every_limit(name: str) -> None:
    for log, outcome in zip(_logs(name), _outcomes(name), strict=True):
        report = detectors.audit(log, thresholds=NO_FLOOR)
        assert_agrees(report, outcome)
        assert_evidence(report)


def test_the_defaults_of_the_thresholds_are_those_of_the_definitions() -> None:
    assert Limits.of(Thresholds()) == Limits()
    others = {
        "evidence_calls",
        "min_valid_pct",
        "warn_valid_pct",
        "d2_whole_write_share",  # what the advice says
        "d2_whole_write_calls_share",
    }
    assert {field.name for field in fields(Limits)} | others == set(Thresholds.__struct_fields__)
