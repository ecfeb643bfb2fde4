"""What the detectors say: fixes with their numbers, and the sections of docstrings and pages."""

from sys import modules
from typing import Any

import pytest

import detectors
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector
from tests.cases import data_of
from tests.detectors.docs import HEADINGS
from tests.detectors.report.test_report import NO_FLOOR, calls, find


def test_a_fix_says_what_to_change_where_and_by_which_numbers() -> None:
    cases = data_of(__file__)["fixes"]
    logs = [
        detectors.read([call for each in case["log"] for call in calls(**each)]) for case in cases
    ]
    for case, report in zip(cases, detectors.audit_many(logs, thresholds=NO_FLOOR), strict=True):
        fix = find(report, case["detector"], case["kind"]).fix
        for part in ['"labels"', *case["words"]]:
            assert part in fix, case


def test_a_route_without_label_shows_its_model() -> None:
    finding = detectors.audit(calls(6, every=3_600, tag="")).findings[0]
    assert finding.route == "gpt-5.4"
    assert "instead of gpt-5.4 on traffic without tag or endpoint" in finding.fix


def _module(detector: Detector) -> Any:
    return modules[detector.find.__module__]


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_every_detector_says_when_it_fires_and_when_not(detector: Detector) -> None:
    lines = _module(detector).__doc__.splitlines()
    underlined = [
        above for above, below in zip(lines, lines[1:], strict=False) if set(below) == {"-"}
    ]
    assert underlined == list(HEADINGS)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_a_detectors_id_and_thresholds_follow_its_file_and_its_number(detector: Detector) -> None:
    number, _, slug = detector.id.partition("_")
    assert _module(detector).__name__.rpartition(".")[2] == slug
    assert detector.thresholds
    assert all(name.startswith(f"{number}_") for name in detector.thresholds)


def test_there_are_six() -> None:
    assert [detector.id[:2] for detector in DETECTORS] == ["d1", "d2", "d3", "d4", "d5", "d6"]
