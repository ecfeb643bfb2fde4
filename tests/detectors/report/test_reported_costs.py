"""The cost that a source reports beside the cost of counts and prices: compared, never summed."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

import detectors
from detectors.cli.terminal import print_report
from detectors.html import page
from detectors.wording.quality import measures, warnings
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS
from tests.worker.support.promises import sampled

FIRST = datetime(2026, 11, 2, tzinfo=UTC)
COSTS = {"openai/gpt-5.4": 0.265, "google/gemini-2.5-flash": 0.0325}  # of these counts


def calls(**reported: Any) -> list[dict[str, Any]]:
    """Return a call of each model, and one that has no cost reported."""
    return [
        {
            "ts": FIRST + timedelta(minutes=minute),
            "provider": "openrouter",
            "model": model,
            "prompt_tokens": 100_000,
            "completion_tokens": 1_000,
            "reported_usd": usd,
        }
        for minute, (model, usd) in enumerate([*reported.items(), ("openai/gpt-5.4", None)])
    ]


def said(report: detectors.Report) -> list[str]:
    return [text for text in warnings(report) if "counts and prices" in text]


def test_a_source_that_says_more_is_a_warning_with_the_models() -> None:
    report = detectors.audit(calls(**COSTS | {"google/gemini-2.5-flash": 0.5}))
    [text] = said(report)
    assert text == (
        "OpenRouter says $0.77 where counts and prices give $0.30 (−61.1%): "
        "google/gemini-2.5-flash lacks 93.5%."
    )
    output = StringIO()
    print_report(report, Console(file=output, width=300), top=3)
    assert text in " ".join(output.getvalue().split())
    assert text in page.print_page(report)
    assert ("Cost that the source reports", "$0.77") in measures(report)
    document = json.loads(report.to_json())["data_quality"]["reported_costs"]
    assert (document["calls"], document["reported_usd"]) == (2, 0.765)
    assert document["models"][0]["model"] == "google/gemini-2.5-flash"
    assert document["models"][0]["spend_usd"] == 0.0325


def test_models_that_differ_from_reported_costs_by_more_than_two_percent_are_named() -> None:
    near = [{model: usd * times for model, usd in COSTS.items()} for times in (0.985, 1, 1.015)]
    changed = {"openai/gpt-5.4": 0.200, "google/gemini-2.5-flash": 0.0975}
    free_of_charge = {"openai/gpt-5.4": 0}
    logs: list[dict[str, Any]] = [*near, changed, free_of_charge, COSTS, dict.fromkeys(COSTS)]
    *reports, differ, free, priced, without = detectors.audit_many(
        [detectors.read(calls(**reported)) for reported in logs]
    )
    for report in reports:
        assert said(report) == []
        assert report.data_quality is not None
        assert report.data_quality.reported_costs
    [text] = said(differ)
    assert "(No change)" in text
    assert "google/gemini-2.5-flash lacks 66.7%" in text
    assert "openai/gpt-5.4 has 32.5% more" in text
    # A free model that costs something is named.
    [text] = said(free)
    assert text == (
        "OpenRouter says $0.00 where counts and prices give $0.27: openai/gpt-5.4 has $0.27 more."
    )
    # Dollars are the same with and without a reported cost.
    document = json.loads(priced.to_json())
    assert document["data_quality"].pop("reported_costs")
    assert document == json.loads(without.to_json())


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 2))
def test_they_are_compared_in_frames_of_every_library(library: str) -> None:
    import polars as pl

    rows = calls(**COSTS | {"google/gemini-2.5-flash": 0.5})
    report = detectors.audit(INPUTS[library](pl.DataFrame(rows)))
    assert said(report) == said(detectors.audit(rows))
