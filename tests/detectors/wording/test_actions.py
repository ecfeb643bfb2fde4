"""What to change about a finding, in one line, with or without the labels of the log."""

from decimal import Decimal

from msgspec.structs import replace

from detectors.rules import DETECTORS
from detectors.wording.actions import (
    action,
    action_labels,
    effort,
    how_long,
    list_checks,
    title,
    with_savings,
)
from detectors.wording.names import detector_name
from tests.cases import each_case
from tests.detectors.reports import make_finding

KINDS = [
    (detector.id, kind.name, kind.confidence)
    for detector in DETECTORS
    for kind in detector.kinds
    if not detector.suggests_cheaper_model
]


@each_case(("detector", "kind", "confidence"), KINDS)
def test_every_kind_has_an_action_of_its_own(detector: str, kind: str, confidence: str) -> None:
    words = action(make_finding(1, detector=detector, kind=kind, confidence=confidence))
    assert words != detector_name(detector)


def test_actions_name_a_model_only_where_labels_do() -> None:
    finding = make_finding(1, kind="short_answers", suggested_model="gpt-5.4-mini")
    assert action(finding) == "Try gpt-5.4-mini instead of gpt-5.4"
    assert str(title(finding)) == "Try gpt-5.4-mini instead of gpt-5.4 on support-bot"
    assert action_labels(finding) == ()
    assert (effort(finding), how_long(finding)) == ("evaluate first", "Evaluate first")
    # Without labels the action names our own suggestion only.
    finding = make_finding(1, suggested_model="gpt-5.4-mini", model="gpt-5.4 at evil.example")
    assert action(finding, has_labels=False) == "Try gpt-5.4-mini"
    # An unknown kind has the name of its detector.
    finding = make_finding(1, detector="d4_duplicate_calls", kind="of_a_later_version")
    assert action(finding) == "Duplicate calls"
    assert title(finding) == ("Duplicate calls on ", "support-bot", "")
    assert action_labels(finding) == ("gpt-5.4",)
    assert (effort(finding), how_long(finding)) == ("", "")
    # Traffic without a route is named once.
    finding = make_finding(1, detector="d4_duplicate_calls", kind="same_shape", route="gpt-5.4")
    assert str(title(finding)) == "Stop sending the same call again in calls to gpt-5.4"
    assert action_labels(finding) == ()
    # A title says what to do on which route.
    finding = make_finding(
        1, detector="d4_duplicate_calls", kind="same_shape", route="ticket\u202e"
    )
    assert title(finding) == ("Stop ", "ticket\\u202e", " from sending the same call again")
    assert how_long(finding) == "Effort: about an hour"


def test_findings_without_dollars_are_one_line_for_each_kind() -> None:
    info = {"detector": "d2_missed_caching", "kind": "unhashed_prefix"}
    none = {"confidence": "INFORMATIONAL", "monthly_cost_impact_usd": Decimal(0)}
    same = [make_finding(at, route=f"route-{at}", **info, **none) for at in range(20)]
    same.append(replace(same[0], model="gpt-5.4-mini"))  # another model on the same route
    other = make_finding(21, detector="d5_max_tokens_misfit", kind="oversized_cap", **none)
    priced = make_finding(22)
    assert [(each.words, len(each.findings)) for each in list_checks([*same, other, priced])] == [
        ("Send prefix_hash to check caching on 20 routes", 21),
        ("Lower max_tokens on 1 route", 1),
    ]
    assert with_savings([*same, other, priced]) == [priced]


def test_a_detector_of_another_installation_cannot_escape_its_line() -> None:
    assert detector_name("d9\x1b[2J\n::error::") == r"d9\x1b[2J\n::error::"
