"""Waste of known dollars is found within 1%, and under 1% of the clean spend is claimed."""

import pytest

import detectors
from detectors import Thresholds
from tests.detectors.corpus.clean import clean_calls
from tests.detectors.corpus.harvest import harvest
from tests.detectors.corpus.planted import PLANTS, Plant
from tests.worker.support.promises import Note

SIZES = (
    pytest.param(1_000, id="1,000 calls"),
    pytest.param(100_000, id="100,000 calls", marks=pytest.mark.stress),
    pytest.param(
        1_000_000, id="1,000,000 calls", marks=(pytest.mark.stress, pytest.mark.timeout(600))
    ),
)


@pytest.mark.parametrize("calls", SIZES)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.detector}.{plant.kind}")
def test_planted_waste_is_found_and_clean_spend_left_alone(
    plant: Plant, calls: int, note: Note
) -> None:
    reaped = harvest(plant, calls)
    is_off = reaped.miss > 0.01 or reaped.false_claim > 0.01
    name = " ".join(filter(None, (plant.detector, plant.kind)))
    note(f"waste planted among calls is found to 1%: {name}", calls, int(is_off))
    assert reaped.planted_usd > 0
    assert reaped.miss <= 0.01, reaped
    assert reaped.false_claim <= 0.01, reaped


@pytest.mark.parametrize("calls", SIZES)
def test_nothing_is_claimed_of_clean_calls_alone(calls: int) -> None:
    report = detectors.audit(clean_calls(calls, seed=1), thresholds=Thresholds(floor_usd=0))
    assert float(report.audit.projected_savings_usd) <= (
        0.01 * float(report.audit.projected_spend_usd)
    )
    assert report.audit.observed_days == 7
