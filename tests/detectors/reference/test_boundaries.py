"""Every threshold on its limit, just under it and just over it."""

import pytest
from msgspec.structs import replace

import detectors
from detectors import Thresholds
from detectors.contract import UsageRecord
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.boundaries import BOUNDARIES, Boundary
from tests.detectors.reference.builders import capped, loop
from tests.detectors.reference.compare import assert_agrees, assert_evidence
from tests.worker.support.promises import sampled

SIDES = (-1, 0, 1)
NO_FLOOR = Thresholds(floor_usd=0)
# Factors of the dollars, limits of the money and of the file: each has its own test below.
FACTORS = ("d3_saving_share", "d5_truncated_saving_share", "d6_saving_share", "days_per_month")
MONEY = ("high_severity_usd", "medium_severity_usd", "floor_usd")
ELSEWHERE = ("evidence_calls", "min_valid_pct", "warn_valid_pct")

BY_TRAFFIC = [name for name, boundary in BOUNDARIES.items() if boundary.by_traffic]


def _outcome(records: list[UsageRecord], limits: Thresholds) -> Outcome:
    """What the reference and the rules agree on."""
    outcome = audit(records, limits)
    assert_agrees(detectors.audit(records, thresholds=limits), outcome)
    return outcome


def _flagged(outcome: Outcome, boundary: Boundary) -> int:
    return sum(
        line.calls
        for line in outcome.lines
        if (line.detector, line.kind) == boundary.finding
        and line.confidence == (boundary.confidence or line.confidence)
    )


def test_every_threshold_is_tried() -> None:
    tried = {*BOUNDARIES, *FACTORS, *MONEY, *ELSEWHERE}
    assert tried == set(Thresholds.__struct_fields__)


@pytest.mark.parametrize("name", sampled(BY_TRAFFIC, 6))
def test_traffic_under_on_and_over_a_limit(name: str) -> None:
    boundary = BOUNDARIES[name]
    default = getattr(Thresholds(), name)
    logs = [boundary.build(default + side * boundary.step) for side in SIDES]
    flagged = tuple(_flagged(_outcome(log, NO_FLOOR), boundary) for log in logs)
    assert flagged == boundary.by_traffic


# Where traffic was tried on both sides of a limit, limits on both sides of traffic add little.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.stress] if name in BY_TRAFFIC else [])
        for name in BOUNDARIES
    ],
)
def test_a_limit_under_on_and_over_the_traffic(name: str) -> None:
    boundary = BOUNDARIES[name]
    default = getattr(Thresholds(), name)
    log = boundary.build(default)
    limits = [replace(NO_FLOOR, **{name: default + side * boundary.step}) for side in SIDES]
    flagged = tuple(_flagged(_outcome(log, limit), boundary) for limit in limits)
    assert flagged == boundary.by_limit


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_moves_the_dollars_in_proportion(name: str) -> None:
    detector = {"d3": "d3_min_calls", "d5": "d5_truncated_min_calls"}.get(name[:2], "d6_min_calls")
    boundary = BOUNDARIES[detector]
    log = boundary.build(getattr(Thresholds(), detector))
    default = getattr(Thresholds(), name)
    monthly = []
    for limit in (default, default * 2):
        outcome = _outcome(log, replace(NO_FLOOR, **{name: limit}))
        lines = [line for line in outcome.lines if (line.detector, line.kind) == boundary.finding]
        monthly.append(sum(line.monthly for line in lines))
    assert monthly[0] > 0
    assert monthly[1] == pytest.approx(2 * monthly[0])


# Five cut calls of 100,000 prompt tokens at $2 and 25,000 answer tokens at $8 a million cost $0.40
# each; half of that is $1 in all, on one day: $30/month.
THIRTY_USD = [replace(record, prompt_tokens=100_000) for record in capped(25_000, [25_000] * 5)]


@pytest.mark.parametrize("name", MONEY)
def test_a_limit_of_the_money_under_on_and_over_the_impact(name: str) -> None:
    seen = []
    for limit in (29.99, 30.0, 30.01):
        outcome = _outcome(THIRTY_USD, replace(Thresholds(), **{name: limit}))
        lines = [line for line in outcome.lines if line.kind == "truncated"]
        assert [line.monthly for line in lines] in ([pytest.approx(30)], [])
        seen.append(lines[0].severity if lines else "hidden")
    assert (
        tuple(seen)
        == {
            "high_severity_usd": ("high", "high", "low"),
            "medium_severity_usd": ("medium", "medium", "low"),
            "floor_usd": ("low", "low", "hidden"),
        }[name]
    )


@pytest.mark.parametrize("limit", [0, 1, 11, 12, 13])
def test_evidence_is_limited_by_the_threshold(limit: int) -> None:
    log = loop([10.5] * 14)  # 12 of 15 calls are flagged
    report = detectors.audit(log, thresholds=replace(NO_FLOOR, evidence_calls=limit))
    assert_evidence(report)
    assert [len(finding.evidence) for finding in report.findings if finding.calls == 12] == [
        min(limit, 12)
    ]
