"""`tallystick audit --fail-on`: what fails, the exit status, and what it writes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

import detectors
from detectors import Finding, Report, frames
from detectors.cli import library
from detectors.contract import GateRule, check_gate
from tests.cases import data_of, each_case
from tests.detectors.reports import make_finding, make_report

HOSTILE = "a|b\\|c` <img src=x> @octocat #1 www.example.com ::error::x%0A **bold** [x](y)\n\u202e"


def _finding(route: str, monthly: float, severity: str = "high", **changes: Any) -> Finding:
    usd = Decimal(str(monthly))
    return make_finding(1, id=route, route=route, severity=severity, **changes,
                        monthly_cost_impact_usd=usd)  # fmt: skip


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command on a log whose audit returns a report with these findings."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    log = tmp_path / "log.jsonl"
    log.write_text("{}")

    def run(findings: list[Finding], *options: object, **environment: str) -> Result:
        monkeypatch.setattr(frames, "place", lambda source, **_: SimpleNamespace(dropped={}))
        monkeypatch.setattr(detectors, "audit", lambda _, **__: make_report(*findings))
        arguments = ["audit", str(log), *map(str, options)]
        return CliRunner(env={"COLUMNS": "120", **environment}).invoke(library, arguments)

    return run


def _baseline(tmp_path: Path, *findings: Finding) -> Path:
    file = tmp_path / "baseline.json"
    file.write_bytes(make_report(*findings).to_json())
    return file


def _failing(report: Report, baseline: Report | None, **rule: Any) -> dict[str, str]:
    failures = check_gate(report, baseline, GateRule(**rule)).failures
    return {change.finding.route: change.status for change in failures}


LOW, MEDIUM, HIGH = (
    _finding("a", 5, "low"), _finding("b", 60, "medium"), _finding("c", 900, "high"),
)  # fmt: skip


@each_case(
    ("fail_on", "failing"), [("low", {"a", "b", "c"}), ("medium", {"b", "c"}), ("high", {"c"})]
)
def test_without_a_baseline_every_finding_of_the_severity_fails(
    fail_on: str, failing: set[str]
) -> None:
    assert _failing(make_report(LOW, MEDIUM, HIGH), None, fail_on=fail_on).keys() == failing
    assert not _failing(make_report(), None, fail_on=fail_on)


def test_with_a_baseline_only_new_or_grown_findings_fail() -> None:
    before = make_report(
        *(_finding("same", 900), _finding("grown", 900), _finding("shrunk", 900)),
        *(_finding("fixed", 900), _finding("by a fraction of a cent", 900)),
    )
    after = make_report(
        *(_finding("same", 900), _finding("grown", 900.01), _finding("shrunk", 800)),
        *(_finding("new", 900), _finding("by a fraction of a cent", 900.004)),
        _finding("new and cheap", 60, "medium"),
    )
    failing = _failing(after, before, fail_on="high")
    assert failing == {"grown": "worse", "new": "new"}
    others = check_gate(after, before, GateRule(fail_on="high")).others
    assert {change.finding.route for change in others} == {
        *("same", "shrunk", "fixed", "by a fraction of a cent", "new and cheap")
    }


def test_a_finding_that_grows_into_the_severity_fails() -> None:
    before, after = _finding("a", 400, "medium"), _finding("a", 600)
    assert _failing(make_report(after), make_report(before), fail_on="high") == {"a": "worse"}


@pytest.mark.parametrize(("monthly", "fails"), [(990, False), (990.01, True)])
def test_growth_can_be_allowed_up_to_a_percentage(monthly: float, fails: bool) -> None:
    before, after = make_report(_finding("a", 900)), make_report(_finding("a", monthly))
    rule = {"fail_on": "high", "allowed_growth_pct": 10}
    assert bool(_failing(after, before, **rule)) is fails
    assert _failing(make_report(_finding("b", 900)), before, **rule) == {"b": "new"}


def test_the_exit_status_is_the_gates(audited: Callable[..., Result], tmp_path: Path) -> None:
    assert audited([HIGH]).exit_code == 0
    assert audited([HIGH], "--fail-on", "high").exit_code == 1
    assert audited([MEDIUM], "--fail-on", "high").exit_code == 0
    known = _baseline(tmp_path, HIGH)
    assert audited([HIGH], "--fail-on", "high", "--baseline", known).exit_code == 0
    grown = audited([_finding("c", 950)], "--fail-on", "high", "--baseline", known)
    assert grown.exit_code == 1
    allowed = ("--fail-on", "high", "--baseline", known, "--allow-growth", 6)
    assert audited([_finding("c", 950)], *allowed).exit_code == 0


@pytest.mark.parametrize(("options", "reason"), data_of(__file__)["bad_use"])
def test_bad_use_has_a_status_of_its_own(
    audited: Callable[..., Result], options: list[str], reason: str
) -> None:
    result = audited([HIGH], *options)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_it_prints_the_outcome_below_the_report(
    audited: Callable[..., Result], tmp_path: Path
) -> None:
    result = audited([HIGH, MEDIUM], "--fail-on", "high")
    assert result.stdout.startswith("You spend about $10,000/month.")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    at = lines.index("Gate failed: 1 finding of high severity.")
    assert "Finding Route Model Severity Savings now" in lines[at:]
    assert "Oversized model c gpt-5.4 High $900" in lines[at:]

    known = _baseline(tmp_path, _finding("c", 800))
    lines = audited([HIGH], "--fail-on", "medium", "--baseline", known).stdout.splitlines()
    sentence = "Gate failed: 1 finding of medium severity or higher is new or has grown since"
    assert f"{sentence} baseline.json." in lines
    assert any(" ".join(line.split()).endswith("High $800 $900") for line in lines)

    known = _baseline(tmp_path, HIGH)
    passed = audited([HIGH], "--fail-on", "high", "--baseline", known).stdout.splitlines()
    assert "Gate passed: no finding of high severity is new or has grown since baseline.json." in (
        passed
    )


def test_the_outcome_can_be_read_by_programs(
    audited: Callable[..., Result], tmp_path: Path
) -> None:
    known = _baseline(tmp_path, _finding("c", 800))
    options = ("--fail-on", "high", "--baseline", known, "--allow-growth", 5)
    result = audited([HIGH, _finding("d", 700)], *options, "--gate-json", "-")
    document = json.loads(result.stdout)
    failures = document.pop("failures")
    assert document == {
        **{"passed": False, "fail_on": "high", "allowed_growth_pct": 5},
        "baseline": "baseline.json",
    }
    assert [(each["route"], each["status"]) for each in failures] == [("d", "new"), ("c", "worse")]
    assert [(each["before_usd"], each["after_usd"]) for each in failures] == [(0, 700), (800, 900)]
    assert "Gate failed" in result.stderr

    file = tmp_path / "gate.json"
    assert audited([MEDIUM], "--fail-on", "high", "--gate-json", file).exit_code == 0
    document = json.loads(file.read_bytes())
    assert document["passed"] is True
    assert document["baseline"] is None


def test_the_report_alone_can_be_on_standard_output(audited: Callable[..., Result]) -> None:
    result = audited([HIGH], "--fail-on", "high", "--json", "-", GITHUB_ACTIONS="true")
    assert result.exit_code == 1
    assert Report.from_json(result.stdout_bytes) == make_report(HIGH)
    assert "Gate failed" in result.stderr


def test_github_shows_each_failure_and_a_summary(
    audited: Callable[..., Result], tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Earlier\n")
    known = _baseline(tmp_path, _finding("c", 800), _finding("gone", 600))
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    options = ("--fail-on", "high", "--baseline", known)
    result = audited([HIGH, _finding("d", 700)], *options, **environment)
    assert result.stderr.splitlines() == [
        "::error title=Oversized model::New: d, gpt-5.4: $700",
        "::error title=Oversized model::Worse: c, gpt-5.4: $900, $800 before",
    ]
    text = summary.read_text()
    assert text.startswith("# Earlier\n## Tallystick\n")
    assert "**Gate failed: 2 findings of high severity are new or have grown since" in text
    assert text.index("<code>d</code>") < text.index("### Other changes")
    assert "| Gone with its traffic | Oversized model | <code>gone</code> |" in text
    passing = audited([MEDIUM], "--fail-on", "high", GITHUB_ACTIONS="true")
    assert passing.stderr == ""


def test_github_gets_ten_annotations_and_twenty_rows_at_most(
    audited: Callable[..., Result], tmp_path: Path
) -> None:
    file = tmp_path / "gate.md"
    findings = [_finding(f"route {number}", 900 + number) for number in range(22)]
    options = ("--fail-on", "high", "--gate-markdown", file)
    result = audited(findings, *options, GITHUB_ACTIONS="true")
    assert result.stderr.count("::error") == 10
    assert file.read_text().count("<code>route") == 20
    assert "2 more findings." in file.read_text()


def test_a_summary_that_cannot_be_written_is_an_error(
    audited: Callable[..., Result], tmp_path: Path
) -> None:
    result = audited([HIGH], "--fail-on", "low", GITHUB_STEP_SUMMARY=str(tmp_path))
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_labels_can_do_nothing_on_github(audited: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "gate.md"
    known = _baseline(tmp_path, _finding(HOSTILE, 800, model=HOSTILE))
    findings = [_finding(HOSTILE, 900, model=HOSTILE), _finding("other", 900)]
    options = ("--fail-on", "high", "--baseline", known, "--gate-markdown", file)
    result = audited(findings, *options, GITHUB_ACTIONS="true")
    assert len(result.stderr.splitlines()) == 2
    assert "x%250A" in result.stderr
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(file.read_text())
    tags = set(re.findall(r"<(\w+)", page))
    assert tags <= {"h2", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code"}
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    assert len(cells) == 2 * 7
    raw = re.sub(r"<code>.*?</code>", "", file.read_text())
    assert "octocat" not in raw
    assert "@" not in file.read_text()


def test_a_reader_that_closes_the_pipe_changes_no_status() -> None:
    program = """
from detectors.cli.console import standard_output
with standard_output(may_close=True):
    print("a report" * 10_000)
raise SystemExit(7)
"""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (7, "")
