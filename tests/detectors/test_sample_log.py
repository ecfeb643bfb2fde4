"""The bundled log: what the generator writes, small enough for one batch, full of waste."""

import json
from pathlib import Path

import pytest

import detectors
from detectors import Report
from detectors.contract import MAX_BATCH_RECORDS
from examples.sample_log.write import SAMPLE, lines, main

DETECTORS = {
    "d1_model_overkill",
    "d2_missed_caching",
    "d3_context_bloat",
    "d4_duplicate_calls",
    "d5_max_tokens_misfit",
    "d6_chatty_loop",
}
KEYS = {
    "id",
    "object",
    "created",
    "model",
    "usage",
    "provider",
    "tag",
    "latency_ms",
    "declared_max_tokens",
    "prefix_hash",
}


@pytest.fixture(scope="module")
def report() -> Report:
    return detectors.audit(SAMPLE)


def test_the_generator_writes_the_bundled_bytes(tmp_path: Path) -> None:
    file = tmp_path / "again.jsonl"
    main([str(file)])
    assert file.read_bytes() == SAMPLE.read_bytes()


def test_it_fits_one_batch_and_holds_counts_times_and_labels_alone() -> None:
    assert len(lines()) <= MAX_BATCH_RECORDS
    assert SAMPLE.stat().st_size < 2_000_000
    # It holds counts times and labels alone.
    assert {key for line in lines() for key in json.loads(line)} == KEYS


def test_every_row_is_valid_and_the_bill_is_believable(report: Report) -> None:
    audit = report.audit
    assert audit.valid_pct == 100
    assert audit.observed_days == 14
    assert audit.echoes_dropped == 12
    assert 8_000 < audit.projected_spend_usd < 15_000
    assert 3 < audit.savings_pct < 40
    assert audit.projection == "good"
    assert [entry.model for entry in report.unpriced] == ["atlas-rewriter-v2"]


def test_all_six_detectors_find_something_of_every_kind(report: Report) -> None:
    assert {finding.detector for finding in report.findings} == DETECTORS
    assert {finding.kind for finding in report.findings} == {
        "legacy_model",
        "short_answers",
        "uncached_prefix",
        "unhashed_prefix",
        "short_lifetime",
        "unread_writes",
        "large_prompts",
        "same_prompt",
        "same_shape",
        "truncated",
        "oversized_cap",
        "hashed",
        "unhashed",
    }
    assert {finding.severity for finding in report.findings} == {"high", "medium", "low"}
