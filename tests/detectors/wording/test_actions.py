"""What to change about a finding, in one line, with or without the labels of the log."""

import pytest

from detectors.rules import DETECTORS
from detectors.wording.actions import action, action_labels
from detectors.wording.names import detector_name
from tests.detectors.reports import make_finding

KINDS = [
    (detector.id, kind.name, kind.confidence)
    for detector in DETECTORS
    for kind in detector.kinds
    if not detector.suggests_cheaper_model
]


@pytest.mark.parametrize(("detector", "kind", "confidence"), KINDS)
def test_every_kind_has_an_action_of_its_own(detector: str, kind: str, confidence: str) -> None:
    words = action(make_finding(1, detector=detector, kind=kind, confidence=confidence))
    assert words != detector_name(detector)


def test_a_cheaper_model_is_the_action() -> None:
    finding = make_finding(1, suggested_model="gpt-5.4-mini")
    assert action(finding) == "Try gpt-5.4-mini instead of gpt-5.4"
    assert action_labels(finding) == ("support-bot",)


def test_without_labels_the_action_names_our_own_suggestion_only() -> None:
    finding = make_finding(1, suggested_model="gpt-5.4-mini", model="gpt-5.4 at evil.example")
    assert action(finding, has_labels=False) == "Try gpt-5.4-mini"


def test_an_unknown_kind_has_the_name_of_its_detector() -> None:
    finding = make_finding(1, detector="d4_duplicate_calls", kind="of_a_later_version")
    assert action(finding) == "Duplicate calls"
    assert action_labels(finding) == ("support-bot", "gpt-5.4")


def test_traffic_without_a_route_is_named_once() -> None:
    assert action_labels(make_finding(1, route="gpt-5.4")) == ("gpt-5.4",)


def test_a_detector_of_another_installation_cannot_escape_its_line() -> None:
    assert detector_name("d9\x1b[2J\n::error::") == r"d9\x1b[2J\n::error::"
