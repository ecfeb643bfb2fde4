"""A full count has time on a slow machine: the usual timeout is for the small counts."""

import pytest

from tests.worker.support.promises import STRESS_SECONDS


@pytest.mark.stress
def test_every_stress_test_may_take_half_an_hour(request: pytest.FixtureRequest) -> None:
    limits = {
        item.nodeid: marker.args[0]
        for item in request.session.items
        if item.get_closest_marker("stress") and (marker := item.get_closest_marker("timeout"))
    }
    stressed = [item for item in request.session.items if item.get_closest_marker("stress")]
    assert len(limits) == len(stressed)
    assert {name for name, seconds in limits.items() if seconds < STRESS_SECONDS} == set()
