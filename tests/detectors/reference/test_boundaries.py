"""Traffic just under, on and just over every limit of the detectors."""

from dataclasses import fields

import pytest

import detectors
from detectors import Thresholds
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.boundaries import BOUNDARIES, Boundary
from tests.detectors.reference.compare import assert_agrees, assert_evidence
from tests.detectors.reference.limits import Limits
from tests.worker.support.promises import sampled

SIDES = (-1, 0, 1)
NO_FLOOR = Thresholds(floor_usd=0)


def _flagged(outcome: Outcome, boundary: Boundary) -> int:
    return sum(
        found.calls
        for found in outcome.findings
        if found.kind == boundary.kind
        and found.confidence == (boundary.confidence or found.confidence)
    )


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_reference_keeps_every_limit(name: str) -> None:
    boundary = BOUNDARIES[name]
    logs = [boundary.build(boundary.limit + side * boundary.step) for side in SIDES]
    outcomes = [audit(log, Limits.of(NO_FLOOR)) for log in logs]
    assert tuple(_flagged(outcome, boundary) for outcome in outcomes) == boundary.flagged


@pytest.mark.parametrize("name", sampled(BOUNDARIES, 6))
def test_audits_agree_on_every_limit(name: str) -> None:
    boundary = BOUNDARIES[name]
    for side in SIDES:
        log = boundary.build(boundary.limit + side * boundary.step)
        report = detectors.audit(log, thresholds=NO_FLOOR)
        assert_agrees(report, audit(log, Limits.of(NO_FLOOR)))
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
