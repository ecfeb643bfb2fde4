"""`tallystick compare BEFORE AFTER`."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from detectors.cli.group import library
from detectors.contract import SpendByModel, SpendByRoute
from tests.detectors.reference.builders import answers
from tests.detectors.reports import make_finding, make_report

FIRST = datetime(2026, 10, 1, tzinfo=UTC)


def _compare(*arguments: Path | str) -> Result:
    return CliRunner().invoke(library, ["compare", *map(str, arguments)])


def _save(file: Path, days: float = 10, /, **routes: str) -> Path:
    """Save a report with the spend of these routes, and a finding on each."""
    findings = (make_finding(at, route=name) for at, name in enumerate(routes, 1))
    report = make_report(*findings)
    spend = {name: Decimal(amount) for name, amount in routes.items()}
    report = replace(
        report,
        audit=replace(
            report.audit,
            first_call=FIRST.isoformat(),
            last_call=(FIRST + timedelta(days=days)).isoformat(),
            total_spend_usd=sum(spend.values()),
        ),
        spend_by_route=tuple(
            SpendByRoute(route=name, calls=1, spend_usd=usd) for name, usd in spend.items()
        ),
        spend_by_model=(
            SpendByModel(
                provider="openai", model="gpt-5", calls=1, spend_usd=Decimal(sum(spend.values()))
            ),
        ),
    )
    file.write_bytes(report.to_json())
    return file


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return _save(tmp_path / "before.json", chat="10", search="50")


def test_reports_are_compared_by_route_model_and_finding(before: Path, tmp_path: Path) -> None:
    result = _compare(before, _save(tmp_path / "after.json", chat="15", new="2", search="50"))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "Change +11.7% (+$7.00)" in lines
    assert lines[0].startswith("Before $60.00 Oct 1, 2026 to Oct 11, 2026 UTC (")
    assert lines.index("chat $10.00 $15.00 +$5.00 +50%") < lines.index("new $0.00 $2.00 +$2.00 New")
    assert "gpt-5 openai $60.00 $67.00 +$7.00 +11.7%" in lines
    assert any(line.startswith("New Oversized model new") for line in lines)


def test_spans_of_different_length_are_compared_per_day(before: Path, tmp_path: Path) -> None:
    result = _compare(before, _save(tmp_path / "after.json", 4.2, chat="10"))
    words = " ".join(result.output.split())
    assert "Route, per day" in words
    assert "chat $1.00 $2.00 +$1.00 +100%" in words
    assert "the first covers 10 days and the second 5 days." in words


def test_logs_are_audited_first(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_bytes(msgspec.json.encode(answers([50] * 40)))
    result = _compare(log, log)
    assert result.exit_code == 0, result.output
    assert "No change" in result.output
    assert "Unchanged" in result.output


def test_long_lists_are_cut(before: Path, tmp_path: Path) -> None:
    after = _save(tmp_path / "after.json", chat="15", new="2", search="50")
    assert "2 smaller changes." in _compare(before, after, "--top", "1").output


@pytest.mark.parametrize("name", ["missing.json", "missing.jsonl"])
def test_a_file_that_cannot_be_read_is_named_in_one_line(before: Path, name: str) -> None:
    result = _compare(before, before.with_name(name))
    assert result.exit_code == 2
    assert "cannot read" in result.stderr
    assert name in result.stderr
