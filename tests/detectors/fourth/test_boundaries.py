"""Traffic just under, on and just over every limit of the detectors."""

import pytest

from tests.detectors.fourth.audit import Outcome, audit
from tests.detectors.fourth.boundaries import BOUNDARIES, Boundary
from tests.detectors.fourth.limits import Limits

SIDES = (-1, 0, 1)
NO_FLOOR = Limits(floor_usd=0)


def _flagged(outcome: Outcome, boundary: Boundary) -> int:
    return sum(
        found.calls
        for found in outcome.findings
        if found.kind == boundary.kind
        and found.confidence == (boundary.confidence or found.confidence)
    )


@pytest.mark.parametrize("name", BOUNDARIES)
def test_traffic_under_on_and_over_a_limit(name: str) -> None:
    boundary = BOUNDARIES[name]
    logs = [boundary.build(boundary.limit + side * boundary.step) for side in SIDES]
    assert tuple(_flagged(audit(log, NO_FLOOR), boundary) for log in logs) == boundary.flagged
