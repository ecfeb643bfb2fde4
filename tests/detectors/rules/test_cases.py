"""Every case of `cases/*.toml`; and each file tries what it should."""

from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from detectors.prices.book import PriceBook
from detectors.rules import DETECTORS
from tests.detectors.rules.case import (
    Case,
    Found,
    Key,
    find_detector,
    flag_calls,
    group_cases,
    read_cases,
)

CASES = read_cases()
TOGETHER = group_cases(CASES)


@cache
def _find_together(number: int) -> dict[str, dict[Key, Found]]:
    """Return what is found in each case of a group, in a single frame."""
    cases = TOGETHER[number]
    found = flag_calls(cases, PriceBook())
    return {str(case): own for case, own in zip(cases, found, strict=True)}


@pytest.mark.parametrize(
    ("case", "group"),
    [
        pytest.param(case, number, id=str(case))
        for number, cases in enumerate(TOGETHER)
        for case in cases
    ],
)
def test_it_finds_what_the_case_says(case: Case, group: int) -> None:
    found = _find_together(group)[str(case)]
    assert {key: (line.calls, line.confidence) for key, line in found.items()} == {
        key: (line.calls, line.confidence) for key, line in case.finds.items()
    }
    for key, line in case.finds.items():
        for end in ("usd", "low", "high"):
            expected = pytest.approx(getattr(line, end), abs=Decimal("1e-11"))
            assert getattr(found[key], end) == expected, (key, end)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_a_case_alone_gives_the_same(detector: Any) -> None:
    number, case = next(
        (number, case)
        for number, cases in enumerate(TOGETHER)
        for case in cases
        if case.finds and find_detector(case.slug) is detector
    )
    _compare_alone(case, number)


@pytest.mark.stress
def test_every_case_alone_gives_the_same() -> None:
    for number, cases in enumerate(TOGETHER):
        for case in cases:
            _compare_alone(case, number)


def _compare_alone(case: Case, group: int) -> None:
    (found,) = flag_calls([case], PriceBook())
    assert found == _find_together(group)[str(case)], str(case)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)
def test_each_detector_has_cases_that_fire_and_cases_that_do_not(detector: Any) -> None:
    own = [case for case in CASES if find_detector(case.slug) is detector]
    fired = {
        (kind, line.confidence, is_reported)
        for case in own
        for (kind, _, is_reported), line in case.finds.items()
    }
    assert fired == {(kind.name, kind.confidence, kind.is_reported) for kind in detector.kinds}
    assert any(not case.finds for case in own)
