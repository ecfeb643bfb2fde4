"""What is scrubbed audits to what the counts-only log of the same calls does."""

from pathlib import Path

import pytest

import detectors
from benchmarks.scrub import write_logs
from detectors import Report
from detectors.scrub import scrub

EXAMPLES = Path(__file__).parents[3] / "examples" / "raw-logs"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """Of 12 MB of raw logs scrubbed, and of the counts-only log of the same calls."""
    folder = tmp_path_factory.mktemp("alike")
    raw, counts, out = folder / "raw.jsonl", folder / "counts.jsonl", folder / "usage.jsonl"
    calls = write_logs(raw, counts, 12_000_000)
    assert scrub([raw], out).calls == calls
    return detectors.audit(out), detectors.audit(counts)


def test_findings_and_bill_are_the_same(reports: tuple[Report, Report]) -> None:
    scrubbed, counted = reports
    assert len(counted.findings) > 5
    assert {finding.detector[:2] for finding in counted.findings} >= {"d1", "d2"}
    assert scrubbed.findings == counted.findings
    assert scrubbed.spend_by_model == counted.spend_by_model
    assert scrubbed.spend_by_route == counted.spend_by_route
    assert scrubbed.spend_by_day == counted.spend_by_day


def test_duplicate_rows_are_dropped_before_the_audit(reports: tuple[Report, Report]) -> None:
    scrubbed, counted = reports
    assert counted.audit.echoes_dropped > 10
    assert scrubbed.audit.echoes_dropped == 0
    assert scrubbed.audit.savings_pct == counted.audit.savings_pct


def test_the_example_logs_are_valid_calls_with_findings(tmp_path: Path) -> None:
    summary = scrub([EXAMPLES], tmp_path / "usage.jsonl")
    assert (summary.files, summary.calls) == (6, 39)
    assert summary.dropped.total() == 3
    audit = detectors.audit(tmp_path / "usage.jsonl").audit
    assert (audit.records, audit.valid_pct) == (39, 100)
    # The example logs have findings.
    scrub([EXAMPLES], tmp_path / "usage.jsonl", hash_short_prompts=True)
    found = {finding.detector for finding in detectors.audit(tmp_path / "usage.jsonl").findings}
    assert {"d1_model_overkill", "d4_duplicate_calls"} <= found
