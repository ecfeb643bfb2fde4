"""Tiers, regions and units without a known rate are warnings, and never silently something else."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

import detectors
from detectors.cli.terminal import print_report
from detectors.frames.sources import read
from detectors.html import page
from detectors.wording.quality import warnings
from tests.cases import data_of
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS
from tests.worker.support.promises import sampled

FIRST = datetime(2026, 6, 10, tzinfo=UTC)


def calls(count: int, model: str = "mistral-large-2512", **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "ts": FIRST + timedelta(minutes=minute),
            "provider": "mistral",
            "model": model,
            "prompt_tokens": 1_000,
            "completion_tokens": 100,
            "tag": "answers",
            **more,
        }
        for minute in range(count)
    ]


def said(report: detectors.Report) -> list[str]:
    return [text for text in warnings(report) if " no rate for it" in text]


def test_a_tier_without_a_rate_is_a_warning_everywhere() -> None:
    report = detectors.audit(calls(1_204, service_tier="priority") + calls(7))
    [text] = said(report)
    assert text == (
        "1,204 calls at tier priority in June 2026 have no rate for it; priced as standard, "
        "probably too low. Concerned: mistral-large-2512 (mistral)."
    )
    output = StringIO()
    print_report(report, Console(file=output, width=300), top=3)
    assert text in " ".join(output.getvalue().split())
    assert text in page.print_page(report)
    assert text in report._repr_html_()
    assert json.loads(report.to_json())["data_quality"]["missing_rates"] == [
        {
            "kind": "tier",
            "name": "priority",
            "provider": "mistral",
            "model": "mistral-large-2512",
            "calls": 1_204,
            "first_call": "2026-06-10T00:00:00Z",
            "last_call": "2026-06-10T20:03:00Z",
        }
    ]


def test_each_kind_says_what_is_charged_instead_in_its_own_log() -> None:
    kinds = data_of(__file__)["each_kind_says_what_is_charged_instead"]
    plain, *reports = detectors.audit_many(
        [read(calls(2)), *(read(calls(2, **more)) for more, _ in kinds)]
    )
    assert said(plain) == []
    for report, (_, text) in zip(reports, kinds, strict=True):
        assert said(report) == [f"{text} Concerned: mistral-large-2512 (mistral)."]


def test_what_has_a_rate_or_needs_none_is_no_warning() -> None:
    known = {"provider": "openai", "model": "gpt-5.5"}
    rows = [
        *calls(1, service_tier="batch"),
        *calls(1, service_tier="priority", **known),
        *calls(1, region="eu", **known),
        *calls(1, region="global"),
        *calls(1, reasoning_tokens=50, image_prompt_tokens=50),
        *calls(1, web_searches=2, **known),
        # Beside tokens, seconds only say how the tokens came about.
        *calls(1, units={"audio_seconds": 40}),
    ]
    assert said(detectors.audit(rows)) == []


def test_several_models_and_months_are_one_warning() -> None:
    models = ["mistral-large-2512", "codestral-2508", "pixtral-12b", "mistral-small-2603"]
    rows = [
        call | {"ts": FIRST + timedelta(days=30 * number)}
        for number, model in enumerate(models)
        for call in calls(5 - number, model=model, service_tier="priority")
    ]
    assert said(detectors.audit(rows)) == [
        "14 calls at tier priority between June 2026 and September 2026 have no rate for it; "
        "priced as standard, probably too low. Concerned: mistral-large-2512 (mistral), "
        "codestral-2508 (mistral), pixtral-12b (mistral) and 1 other model."
    ]


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 3))
def test_they_are_counted_in_frames_of_every_library(library: str) -> None:
    import polars as pl

    rows = [
        call | {"region": region, "service_tier": tier, "web_searches": searches}
        for region, tier, searches in (("eu", "flex", 0), ("", "batch", 3), ("us", "", 0))
        for call in calls(3)
    ]
    expected = said(detectors.audit(rows))
    assert len(expected) == 4
    assert said(detectors.audit(INPUTS[library](pl.DataFrame(rows)))) == expected
