"""What the detectors say: fixes with their numbers, and the sections of docstrings and pages."""

from sys import modules
from typing import Any

import pytest

import detectors
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector
from tests.detectors.docs import HEADINGS
from tests.detectors.report.test_report import HASH, NO_FLOOR, calls, find

CLAUDE: dict[str, Any] = {
    "provider": "anthropic",
    "model": "claude-opus-4-8",
    "prompt_tokens": 4_000,
}


def _sampled(at: float) -> list[dict[str, Any]]:
    """Three answers to one prompt."""
    return [
        call
        for number in range(3)
        for call in calls(1, at=at + number, prefix_hash=HASH, completion_tokens=100 + number)
    ]


@pytest.mark.parametrize(
    ("log", "detector", "kind", "words"),
    [
        (
            calls(6, every=3_600),
            "d1",
            "short_answers",
            [
                "Try gpt-5.4-mini instead of gpt-5.4",
                "all 6 of its calls",
                "$2.50",
                "$0.75",
                "evaluation",
            ],
        ),
        (
            calls(5, model="gpt-4-0613", completion_tokens=900),
            "d1",
            "legacy_model",
            ["Try gpt-4.1 instead of gpt-4-0613", "has replaced with gpt-4.1", "$30.00", "$2.00"],
        ),
        (
            calls(3, every=60, prompt_tokens=2_000, prefix_hash=HASH),
            "d2",
            "uncached_prefix",
            ["3 calls", "1,020 of 2,000 tokens are the same", "60 seconds", "$2.50", "$0.25"],
        ),
        (
            calls(20, every=60, **CLAUDE),
            "d2",
            "unhashed_prefix",
            ["Send prefix_hash", "20 calls", "4,000 tokens", "$5.00", "$0.50"],
        ),
        (
            calls(4, every=7_200, cache_write_tokens=3_000, **CLAUDE),
            "d2",
            "unread_writes",
            ["12,000 tokens were written", "$6.25", "none were read back", "Remove the cache"],
        ),
        (
            calls(4, every=60, cache_write_tokens=3_600, **CLAUDE),
            "d2",
            "unread_writes",
            ["14,400 tokens were written", "put the fixed part first"],
        ),
        (
            calls(5, every=420, cache_write_tokens=3_600, **CLAUDE),
            "d2",
            "short_lifetime",
            ["Use the one-hour cache", "7.0 minutes", "$6.25", "$0.50", '"ttl": "1h"'],
        ),
        (
            calls(30, tag="usual") + calls(8) + calls(4, prompt_tokens=9_000),
            "d3",
            "outgrown",
            ['Shorten the prompts of "labels"', "4 of its 12", "18.0 times the 500", "64 to 127"],
        ),
        (
            calls(30, tag="usual", every=60) + calls(10, every=60, prompt_tokens=9_000),
            "d3",
            "large_prompts",
            ["all 10 of its calls", "9,000 tokens", "no savings are claimed"],
        ),
        (
            calls(3, prefix_hash=HASH),
            "d4",
            "same_prompt",
            ["2 of its 3", "within 30 seconds", "same prompt", "500 tokens in"],
        ),
        (
            [each for at in (0, 100, 200) for each in _sampled(at)],
            "d4",
            "same_prompt",
            ["samples on purpose", "3 calls at a time", "no savings are claimed"],
        ),
        (calls(3), "d4", "same_shape", ["2 of its 3", "same prompt and answer lengths"]),
        (
            calls(5, every=60, declared_max_tokens=100),
            "d5",
            "truncated",
            ['Raise max_tokens on "labels"', "all 5 of its calls", "100 tokens", "4 of them"],
        ),
        (
            calls(5, every=3_600, declared_max_tokens=100),
            "d5",
            "truncated",
            ['Check max_tokens on "labels"', "all 5 of its calls", "no savings are claimed"],
        ),
        (
            calls(20, every=60, declared_max_tokens=8_000),
            "d5",
            "oversized_cap",
            ["Lower max_tokens", "8,000", "longest 100"],
        ),
        (
            calls(10, every=5, prefix_hash=HASH),
            "d6",
            "hashed",
            ["several items", "8 of its 10", "5 items in one request"],
        ),
        (calls(10, every=5), "d6", "unhashed", ["8 of its 10", "no savings are claimed"]),
    ],
)
def test_a_fix_says_what_to_change_where_and_by_which_numbers(
    log: list[dict[str, Any]], detector: str, kind: str, words: list[str]
) -> None:
    fix = find(detectors.audit(log, thresholds=NO_FLOOR), detector, kind).fix
    for part in ['"labels"', *words]:
        assert part in fix


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
