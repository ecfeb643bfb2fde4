"""The console command: what it prints, what it writes and how it refuses."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import EntryPoint
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

import detectors
from detectors import cli, terminal
from detectors.contract import (
    AuditSummary,
    Finding,
    InvalidRows,
    PriceSource,
    Report,
    Thresholds,
    UnpricedModel,
)
from detectors.errors import ContractError

Arrange = Callable[[Report | Exception], list[Any]]
Extend = Callable[..., cli.ExtensibleGroup]

HOSTILE = "[red]bold[/red] :boom: \x1b[31mred\r\n\u202egnirts\u2028\u200b"


def _finding(rank: int, **changes: Any) -> Finding:
    finding = Finding(
        id=f"d1-{rank:03}",
        detector="d1_model_overkill",
        kind="",
        route="support-bot",
        provider="openai",
        model="gpt-5.4",
        calls=40,
        severity="high",
        confidence="ESTIMATED",
        monthly_cost_impact_usd=Decimal("1234.5"),
        observed_cost_impact_usd=Decimal("576.1"),
        fix="Try gpt-5.4-mini on this route.",
    )
    return replace(finding, **changes)


def _report(*findings: Finding, **changes: Any) -> Report:
    audit = AuditSummary(
        records=4210,
        valid_pct=100.0,
        echoes_dropped=0,
        observed_days=14,
        first_call="2026-10-01T00:00:00Z",
        last_call="2026-10-14T23:00:00Z",
        total_spend_usd=Decimal("4666.67"),
        projected_spend_usd=Decimal(10000),
        savings_pct=31.4,
        projected_savings_usd=Decimal(3140),
        equiv_spend=False,
        below_floor=0,
    )
    return Report(
        audit=replace(audit, **changes),
        findings=findings,
        spend_by_model=(),
        spend_by_route=(),
        spend_by_day=(),
        unpriced=(),
        invalid_rows=InvalidRows(count=0, reasons={}, first=()),
        prices=PriceSource(source="genai-prices", version="1.2.3"),
        thresholds=Thresholds(),
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"{}\n")
    return file


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    """Let the audit give this report or raise this error; the list holds what was read."""
    sources: list[Any] = []

    def read(source: Any, *, progress: Callable[[int, int], None] | None) -> Any:
        if progress is not None:
            progress(1, 2)
        sources.append((source, progress is not None))
        return source

    def arrange(outcome: Report | Exception) -> list[Any]:
        def audit(_: Any) -> Report:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(detectors, "read", read)
        monkeypatch.setattr(detectors, "audit", audit)
        return sources

    return arrange


def _run(*arguments: object, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(cli.library, [str(each) for each in arguments])


def test_it_prints_the_headline_and_a_ranked_table(log: Path, found: Arrange) -> None:
    second = _finding(2, kind="uncached_prefix", severity="low", monthly_cost_impact_usd=Decimal(7))
    found(_report(_finding(1), second))
    result = _run("audit", log)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "$10,000.00 a month, of which $3,140.00 (31.4 %) can be avoided"
    assert (
        "14 days (2026-10-01 to 2026-10-14) · 4,210 calls · 100.0 % of the rows valid" in lines[1]
    )
    assert "genai-prices 1.2.3" in lines[1]
    rows = [line for line in lines if "support-bot" in line]
    for cell in ("1", "d1_model_overkill", "gpt-5.4", "high", "estimated", "$1,234.50"):
        assert cell in rows[0]
    assert "uncached_prefix" in result.stdout
    assert "$7.00" in rows[1]
    assert "1. Try gpt-5.4-mini on this route." in [line.rstrip() for line in lines]
    assert result.stderr == ""


def test_it_stays_within_a_narrow_terminal(log: Path, found: Arrange) -> None:
    found(_report(_finding(1)))
    lines = _run("audit", log, COLUMNS="100").stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert any(line.startswith("1. Try gpt-5.4-mini on this route.") for line in lines)


def test_it_prints_only_the_top_findings_and_says_so(log: Path, found: Arrange) -> None:
    found(_report(*(_finding(rank) for rank in range(1, 5))))
    assert "3 more findings: raise --top" in _run("audit", log, "--top", 1).stdout
    assert "1 more finding:" in _run("audit", log, "--top", 3).stdout
    assert "more finding" not in _run("audit", log, "--top", 4).stdout


def test_it_says_where_nothing_was_found(log: Path, found: Arrange) -> None:
    found(_report(records=0, first_call=None, last_call=None))
    result = _run("audit", log)
    assert "Nothing to save was found." in result.stdout
    assert "14 days · 0 calls" in result.stdout


def test_it_warns_of_everything_that_qualifies_the_figures(log: Path, found: Arrange) -> None:
    report = _report(_finding(1), valid_pct=94.9, equiv_spend=True, below_floor=2, savings_pct=-0.0)
    models = tuple(
        UnpricedModel(provider="lab", model=f"model-{number}", calls=number)
        for number in range(1, 8)
    )
    found(
        replace(report, unpriced=models, invalid_rows=InvalidRows(count=12, reasons={}, first=()))
    )
    text = " ".join(_run("audit", log).stdout.split())
    assert "Warning: 12 rows could not be used; under 95 % valid the figures may mislead." in text
    assert "not a bill" in text
    assert "model-1 (lab, 1 call)" in text
    assert "2 more." in text
    assert "2 findings under $0.01 a month left out." in text


def test_it_does_not_warn_from_the_limit_on(log: Path, found: Arrange) -> None:
    found(_report(valid_pct=95.0))
    assert "Warning" not in _run("audit", log).stdout


def test_it_shows_a_negative_figure_with_its_sign(log: Path, found: Arrange) -> None:
    found(_report(_finding(1, monthly_cost_impact_usd=Decimal("-3"))))
    assert "-$3.00" in _run("audit", log).stdout


def test_it_prints_hostile_labels_inert(log: Path, found: Arrange) -> None:
    report = _report(_finding(1, route=HOSTILE, model=HOSTILE, fix=HOSTILE))
    unpriced = (UnpricedModel(provider="lab", model=HOSTILE, calls=1),)
    found(replace(report, unpriced=unpriced))
    for columns in ("160", "400", "60"):
        text = _run("audit", log, COLUMNS=columns).stdout
        joined = "".join(text.split())
        assert "[red]bold[/red]:boom:" in joined or columns == "60"
        assert not set(text) & set("\x1b\r\u202e\u2028\u200b")
    assert terminal.inert("\x1b\u202e\ud800é") == r"\x1b\u202e\ud800é"


def test_it_prints_to_a_terminal_that_knows_few_letters(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(_report(_finding(1, route="größe")))
    narrow = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    narrow.seek(0)
    assert r"gr\xf6\xdfe" in narrow.read()


def test_it_prints_into_a_buffer_of_the_caller(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(_report(_finding(1)))
    buffer = StringIO()
    monkeypatch.setattr(sys, "stdout", buffer)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert "support-bot" in buffer.getvalue()


def test_it_writes_the_report_document_to_a_file(log: Path, found: Arrange, tmp_path: Path) -> None:
    report = _report(_finding(1))
    found(report)
    out = tmp_path / "report.json"
    result = _run("audit", log, "--json", out)
    assert "support-bot" in result.stdout
    assert out.read_bytes() == report.to_json() + b"\n"


def test_it_writes_only_the_document_to_standard_output(log: Path, found: Arrange) -> None:
    report = _report(_finding(1))
    found(report)
    result = _run("audit", log, "--json", "-")
    assert result.stdout_bytes == report.to_json() + b"\n"
    assert json.loads(result.stdout)["findings"][0]["monthly_cost_impact_usd"] == 1234.5
    assert result.stderr == ""


def _assert_one_line(result: Result, *parts: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def test_it_refuses_a_missing_file_in_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "no\x1b[31m\nsuch"
    _assert_one_line(_run("audit", missing), r"no\x1b[31m such", "No such file or directory")


def test_it_refuses_a_directory_in_one_line(tmp_path: Path) -> None:
    _assert_one_line(_run("audit", tmp_path), "Is a directory")


def test_it_refuses_a_file_it_may_not_read(log: Path, found: Arrange) -> None:
    found(PermissionError(13, "Permission denied"))
    _assert_one_line(_run("audit", log), "cannot read", "Permission denied")


def test_it_refuses_what_the_system_will_not_read(log: Path, found: Arrange) -> None:
    found(OSError("the disk is gone"))
    _assert_one_line(_run("audit", log), "the disk is gone")


def test_it_refuses_a_broken_contract_in_one_line(log: Path, found: Arrange) -> None:
    found(ContractError("line 3: messages;\ncontent is never accepted", ("line 3: messages",)))
    _assert_one_line(_run("audit", log), "line 3: messages; content is never accepted")


def test_it_refuses_a_place_where_it_cannot_write(
    log: Path, found: Arrange, tmp_path: Path
) -> None:
    found(_report())
    _assert_one_line(_run("audit", log, "--json", tmp_path / "no" / "out"), "cannot write")


def _watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")


def test_it_shows_on_a_terminal_how_far_a_long_file_is_read(
    log: Path,
    found: Arrange,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sources = found(_report())
    monkeypatch.setattr(cli, "LONG_FILE_BYTES", 0)
    _watch(monkeypatch)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert sources == [(log, True)]
    captured = capsys.readouterr()
    assert "Auditing" in captured.err
    assert "50%" in captured.err
    assert "Auditing" not in captured.out


def test_it_shows_no_progress_of_a_short_file(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = found(_report())
    _watch(monkeypatch)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert sources == [(log, False)]


def test_it_shows_no_progress_where_nobody_watches(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = found(_report())
    monkeypatch.setattr(cli, "LONG_FILE_BYTES", 0)
    assert _run("audit", log).stderr == ""
    assert sources == [(log, False)]


HEADER = "ts,provider,model,prompt_tokens,completion_tokens"
GOOD, BAD = "2026-10-06,openai,gpt-4.1,10,10", "2026-10-06,openai,gpt-4.1,10,-1"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "expected OpenAI-style JSON lines"),
        ("Dear diary,\nthe canary sang.\n", "expected OpenAI-style JSON lines"),
        (f"{HEADER},messages\n{GOOD},canary\n", "messages; content is never accepted"),
        ("\n".join([HEADER, GOOD, BAD, BAD]), "only 33.3 % of the rows are valid"),
    ],
)
def test_it_refuses_real_files_in_one_line(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "log"
    file.write_text(content)
    result = _run("audit", file)
    _assert_one_line(result, expected)
    assert "canary" not in result.stderr


def test_it_audits_a_real_packed_file_from_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "log.csv.gz"
    file.write_bytes(gzip.compress("\n".join([HEADER, *[GOOD] * 99, BAD]).encode()))
    command = [sys.executable, "-m", "detectors", "audit", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "99 calls · 99.0 % of the rows valid" in run.stdout
    assert run.stderr == ""


def register(group: click.Group) -> None:
    """What an entry point of these tests names."""
    group.add_command(click.Command("up", callback=lambda: click.echo("running")))


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> Extend:
    """A fresh group whose entry points lie in the named modules."""

    def build(*values: str) -> cli.ExtensibleGroup:
        points = [
            EntryPoint(f"part{n}", value, cli.ENTRY_POINT_GROUP) for n, value in enumerate(values)
        ]
        monkeypatch.setattr(cli, "entry_points", lambda *, group: points)
        group = cli.ExtensibleGroup("tallystick")
        group.add_command(cli.audit)
        return group

    return build


def test_commands_of_other_packages_are_loaded_when_asked_for(extended: Extend) -> None:
    group = extended(f"{__name__}:register")
    assert CliRunner().invoke(group, ["up"]).stdout == "running\n"
    assert "up" in CliRunner().invoke(group, ["--help"]).stdout


def test_an_audit_loads_no_other_package(extended: Extend, log: Path, found: Arrange) -> None:
    found(_report())
    group = extended("nowhere.at.all:register")
    assert CliRunner().invoke(group, ["audit", str(log)]).exit_code == 0
    assert not group.is_loaded


def test_a_package_whose_libraries_are_missing_is_left_out_and_named(extended: Extend) -> None:
    group = extended("nowhere.at.all:register", f"{__name__}:register")
    help_page = CliRunner().invoke(group, ["--help"])
    assert help_page.exit_code == 0
    assert "audit" in help_page.stdout
    assert "the commands of part0" in help_page.stdout
    assert CliRunner().invoke(group, ["up"]).exit_code == 0
    unknown = CliRunner().invoke(group, ["down"])
    assert unknown.exit_code == 2
    assert "the commands of part0" in unknown.stderr


def test_an_unknown_command_is_refused(extended: Extend) -> None:
    result = CliRunner().invoke(extended(), ["down"])
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_the_module_offers_the_library_commands_alone() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "detectors", "--help"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("Usage: python -m detectors [OPTIONS] COMMAND")
    assert "audit" in run.stdout
    assert set(cli.library.commands) <= set(cli.main.commands)
    assert " up " not in run.stdout


def test_the_console_command_starts_without_the_service_or_a_dataframe_library() -> None:
    code = (
        "import sys, detectors.cli as cli\n"
        "cli.main(['audit', '/no/such/file'], standalone_mode=False)"
    )
    names = "{'flask', 'sqlalchemy', 'redis', 'rq', 'service', 'polars', 'narwhals'}"
    check = (
        f"import atexit, sys; atexit.register(lambda: print(sorted({names} & set(sys.modules))))\n"
    )
    run = subprocess.run([sys.executable, "-c", check + code], capture_output=True, text=True)
    assert run.stdout == "[]\n"
    assert "cannot read" in run.stderr
