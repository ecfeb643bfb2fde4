"""The console command: what it prints, what it writes and how it refuses."""

import atexit
import csv
import gc
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import detectors
from detectors import Report, cli, frames
from detectors.cli import console, imports, reports
from detectors.errors import ContractError
from tests.cases import data_of, each_case
from tests.detectors.reports import make_finding, make_report
from tests.worker.support.promises import sampled

Arrange = Callable[[Report | Exception], list[Any]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"{}\n")
    return file


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    """Let the audit give this report or raise this error; the list holds what was read."""
    sources: list[Any] = []
    checked_calls = SimpleNamespace(dropped={})

    def place(source: Any, *, progress: Callable[[int, int], None] | None, **_: Any) -> Any:
        if progress is not None:
            progress(1, 2)
        sources.append((source, progress is not None))
        return checked_calls

    def arrange(outcome: Report | Exception) -> list[Any]:
        def audit(_: Any, **__: Any) -> Report:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(frames, "place", place)
        monkeypatch.setattr(detectors, "audit", audit)
        return sources

    return arrange


def _run(*arguments: object, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(cli.library, [str(each) for each in arguments])


@pytest.mark.parametrize(
    ("name", "seconds"), [("log.jsonl", 1), ("log.parquet", 10)], ids=["lines", "Parquet"]
)
def test_freed_memory_stays_longer_while_parquet_is_audited(
    name: str, seconds: int, found: Arrange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(make_report())
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "")  # what it was comes back after the test
    monkeypatch.delenv("_RJEM_MALLOC_CONF")
    file = tmp_path / name
    file.write_bytes(b"{}\n")
    reports.audit_file(file, None)
    assert f"dirty_decay_ms:{seconds}000," in os.environ["_RJEM_MALLOC_CONF"]


def test_it_prints_the_report(log: Path, found: Arrange) -> None:
    found(make_report(make_finding(1), make_finding(2)))
    result = _run("audit", log, "--top", 1)
    assert result.exit_code == 0
    assert result.stdout.startswith("You spend about $10,000/month.")
    assert "1 more finding" in result.stdout
    assert result.stderr == ""


def test_garbage_is_collected_rarely_during_an_audit(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(make_report())
    before, arranged, during = gc.get_threshold(), detectors.audit, list[int]()
    frozen = gc.get_freeze_count()

    def audit(*arguments: Any, **options: Any) -> Report:
        during.append(gc.get_threshold()[0])
        return arranged(*arguments, **options)

    monkeypatch.setattr(detectors, "audit", audit)
    assert _run("audit", log).exit_code == 0
    assert during[0] > before[0]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() > frozen  # so that the process exits without looking for it


def test_it_prints_to_the_given_width(log: Path, found: Arrange) -> None:
    found(make_report(make_finding(1)))
    widths = [len(line) for line in _run("audit", log, COLUMNS="100").stdout.splitlines()]
    assert 80 < max(widths) <= 100


def test_it_prints_to_an_ascii_terminal(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(make_report(make_finding(1, route="größe")))
    narrow = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    narrow.seek(0)
    assert r"gr\xf6\xdfe" in narrow.read()


def test_it_prints_into_a_buffer_of_the_caller(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(make_report(make_finding(1)))
    buffer = StringIO()
    monkeypatch.setattr(sys, "stdout", buffer)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert "support-bot" in buffer.getvalue()


def test_it_writes_the_report_document_to_a_file(log: Path, found: Arrange, tmp_path: Path) -> None:
    report = make_report(make_finding(1))
    found(report)
    out = tmp_path / "report.json"
    result = _run("audit", log, "--json", out)
    assert "support-bot" in result.stdout
    assert out.read_bytes() == report.to_json() + b"\n"


def test_it_writes_only_the_document_to_standard_output(log: Path, found: Arrange) -> None:
    report = make_report(make_finding(1))
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


def test_what_is_no_file_is_refused_in_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "no\x1b[31m\nsuch"
    _assert_one_line(_run("audit", missing), r"no\x1b[31m such", "No such file or directory")
    # It refuses an empty directory in one line.
    _assert_one_line(_run("audit", tmp_path), "We found no calls")


def test_it_refuses_a_file_it_may_not_read(log: Path, found: Arrange) -> None:
    found(PermissionError(13, "Permission denied"))
    _assert_one_line(_run("audit", log), "cannot read", "Permission denied")


def test_a_file_that_the_system_cannot_read_is_an_error(log: Path, found: Arrange) -> None:
    found(OSError("the disk is gone"))
    _assert_one_line(_run("audit", log), "the disk is gone")


def test_it_refuses_a_broken_contract_in_one_line(log: Path, found: Arrange) -> None:
    found(ContractError("Contains messages:\ncontent is never accepted.", ("line 3: messages",)))
    _assert_one_line(_run("audit", log), "Contains messages: content is never accepted.")


def test_an_output_that_cannot_be_written_is_an_error(
    log: Path, found: Arrange, tmp_path: Path
) -> None:
    found(make_report())
    _assert_one_line(_run("audit", log, "--json", tmp_path / "no" / "out"), "cannot write")


def test_a_closed_output_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as after `>&-`
    with (
        pytest.raises(console.BadInputError, match="^cannot write standard output: Bad file"),
        console.standard_output(may_close=True),
    ):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("options", sampled([(), ("--json", "-")], 2, ["text", "document"]))
def test_it_says_in_one_line_that_the_output_is_full(log: Path, options: tuple[str, ...]) -> None:
    log.write_text("\n".join([HEADER, GOOD]))
    # Buffered, as a shell would start it, whatever this test's own environment says.
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "detectors", "audit", str(log), *options]
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert run.returncode == 2
    assert run.stderr == "Error: cannot write standard output: No space left on device\n"


def test_it_ends_quietly_if_the_reader_closes_the_pipe(log: Path) -> None:
    log.write_text("\n".join([HEADER, GOOD]))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "detectors", "audit", str(log)]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert run.returncode == 1
    assert run.stderr == ""


def test_it_reads_standard_input() -> None:
    text = "\n".join([HEADER, GOOD, GOOD])
    result = CliRunner().invoke(cli.library, ["audit", "-"], input=text)
    assert result.exit_code == 0
    assert "2 calls" in result.stdout
    _assert_one_line(CliRunner().invoke(cli.library, ["audit", "-"], input=""), "read this file")


def _watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")


def test_it_shows_on_a_terminal_how_far_a_long_file_is_read(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = found(make_report())
    for module in (console, reports):
        monkeypatch.setattr(module, "LONG_FILE_BYTES", 0)
    imported: list[str] = []
    monkeypatch.setattr(imports, "import_module", imported.append)
    _watch(monkeypatch)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert sources == [(log, True)]
    assert "detectors.cli.terminal" in imported
    captured = capsys.readouterr()
    assert "Auditing" in captured.err
    assert "50%" in captured.err
    assert "Auditing" not in captured.out


def test_it_shows_no_progress_of_a_short_file(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = found(make_report())
    _watch(monkeypatch)
    cli.library.main(["audit", str(log)], standalone_mode=False)
    assert sources == [(log, False)]


def test_it_shows_no_progress_without_a_terminal(
    log: Path, found: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = found(make_report())
    monkeypatch.setattr(console, "LONG_FILE_BYTES", 0)
    assert _run("audit", log).stderr == ""
    assert sources == [(log, False)]


HEADER = "ts,provider,model,prompt_tokens,completion_tokens"
GOOD, BAD = "2026-10-06,openai,gpt-4.1,10,10", "2026-10-06,openai,gpt-4.1,10,-1"


@each_case(("content", "expected"), data_of(__file__)["refused"])
def test_it_refuses_real_files_in_one_line(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "log"
    file.write_text(content)
    result = _run("audit", file)
    _assert_one_line(result, expected)
    assert "canary" not in result.stderr


# An audit needs none of these, and they take long to load.
SLOW_MODULES: Final = {
    *("detectors.charts", "detectors.html", "detectors.scrub", "detectors.cli.gate")
}


class Full(StringIO):
    """An output that fails when what it holds is written."""

    def flush(self) -> None:
        raise OSError


def test_the_process_of_a_command_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was registered for the exit runs first. Other callers get the usual exception."""
    done: list[object] = []
    monkeypatch.setattr(os, "_exit", done.append)
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: done.append("registered"))
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(sys, "gettrace", lambda: None)  # coverage may be measured
    monkeypatch.setattr(sys, "getprofile", lambda: None)
    command = ["audit", "/no/such/file"]
    with pytest.raises(SystemExit):
        cli.library(command)
    assert done == []
    monkeypatch.setattr(sys, "argv", ["tallystick", *command])
    with pytest.raises(SystemExit):
        cli.library()
    assert done == ["registered", 2]
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with pytest.raises(SystemExit):
        cli.library()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(sys, "getprofile", lambda: done.append)  # writes its results later
    with pytest.raises(SystemExit):
        cli.library()
    monkeypatch.setattr(sys, "getprofile", lambda: None)
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(SystemExit):
        cli.library()
    assert done == ["registered", 2, "registered"]
    monkeypatch.setattr(sys, "stdout", StringIO())
    monkeypatch.setattr(sys, "stderr", None)  # as after `2>&-`
    with pytest.raises(SystemExit):
        cli.library()
    assert done == ["registered", 2, "registered", "registered", 2]


def test_it_audits_a_real_packed_file_from_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "log.csv.gz"
    file.write_bytes(gzip.compress("\n".join([HEADER, *[GOOD] * 99, BAD]).encode()))
    command = [sys.executable, "-X", "importtime", "-m", "detectors", "audit", str(file)]
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path)}  # without an update of the prices
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "· 99 calls ·" in run.stdout
    assert "1 row could not be read and is excluded." in " ".join(run.stdout.split())
    lines = run.stderr.splitlines()
    assert [line for line in lines if not line.startswith("import time:")] == []
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "polars" in loaded
    assert loaded & SLOW_MODULES == set()


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    file = tmp_path / "log.csv"
    file.write_text("\n".join([HEADER, *[GOOD] * 99]))
    return file


def test_it_writes_the_report_as_a_page_and_the_findings_as_a_table(
    calls: Path, tmp_path: Path
) -> None:
    page, table = tmp_path / "report.html", tmp_path / "findings.csv"
    assert _run("audit", calls, "--html", page, "--csv", table).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert table.read_text().startswith("id,detector,kind,route,")
    _assert_one_line(_run("audit", calls, "--html", tmp_path / "no" / "out"), "cannot write")


def test_it_writes_every_call_behind_each_finding(calls: Path, tmp_path: Path) -> None:
    folder, document = tmp_path / "new" / "calls", tmp_path / "report.json"
    assert _run("audit", calls, "--calls", folder, "--json", document).exit_code == 0
    report = Report.from_json(document.read_bytes())
    assert {file.stem for file in folder.iterdir()} == {each.id for each in report.findings}
    for finding in report.findings:
        with (folder / f"{finding.id}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        saved = sum(Decimal(row["saving_usd"]) for row in rows)
        assert len(rows) == finding.calls
        assert saved == pytest.approx(finding.observed_cost_impact_usd, abs=Decimal("1e-9"))
    (tmp_path / "taken").write_text("")
    _assert_one_line(_run("audit", calls, "--calls", tmp_path / "taken"), "cannot create")


def test_it_audits_at_negotiated_rates(calls: Path, tmp_path: Path) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text(
        '[discounts]\nopenai = 0.5\n[overrides.own."my.model"]\ninput_mtok = 4\noutput_mtok = 24\n'
    )
    listed = json.loads(_run("audit", calls, "--json", "-").stdout)
    agreed = json.loads(_run("audit", calls, "--prices", rates, "--json", "-").stdout)
    half = listed["audit"]["total_spend_usd"] / 2
    assert agreed["audit"]["total_spend_usd"] == pytest.approx(half)
    assert len(agreed["prices"]["negotiated"]) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("discounts = 1\n", "line 1: discounts: must be a table"),
        ("[overrides]\nopenai = 1\n", "line 2: overrides.openai: must be a table"),
        ("[discount]\nopenai = 0.5\n", "unknown 'discount'"),
        ("[discounts]\nopenia = 0.5\n", "openai"),
        ("nonsense", "is not TOML"),
    ],
)
def test_it_refuses_rates_it_cannot_use(
    calls: Path, tmp_path: Path, text: str, expected: str
) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text(text)
    _assert_one_line(_run("audit", calls, "--prices", rates), expected)
    _assert_one_line(_run("audit", calls, "--prices", tmp_path / "none"), "cannot read")


def test_it_points_from_text_to_scrub_and_to_dropping_its_column(tmp_path: Path) -> None:
    file = tmp_path / "raw.jsonl"
    file.write_text('{"model":"gpt-5.4","usage":{},"messages":["canary"]}\n')
    _assert_one_line(_run("audit", file), f"tallystick scrub {file} --out usage.jsonl")
    # It points from a column of text to dropping it.
    file = tmp_path / "raw.csv"
    file.write_text(f"{HEADER},messages\n{GOOD},canary\n")
    _assert_one_line(_run("audit", file), "map or drop each of them: --drop messages")


def test_it_shows_spend_by_route_and_by_day(calls: Path) -> None:
    printed = _run("audit", calls).stdout
    assert "Spend by route" in printed
    assert "Spend by day\n  Oct 6, 2026" in printed
    assert "█" in printed or "#" in printed


def test_several_parquet_files_are_one_log_and_each_counts_once(tmp_path: Path) -> None:
    """By their names, as a shell passes them, or by a pattern; names may look like one."""
    call = {"ts": "2026-11-01T00:00:00Z", "provider": "openai", "model": "gpt-4o", "tag": "chat"}
    files = [tmp_path / name for name in ("a1.parquet", "b.parquet", "a[1].parquet")]
    for number, file in enumerate(files, 1):
        counts = {"prompt_tokens": 1_000, "completion_tokens": number}
        detectors.read([{**call, **counts}] * 10**number).frame.write_parquet(file)
    for named, records in (
        (files[:2], 110),
        (files, 1_110),
        ([tmp_path / "*.parquet"], 1_110),
        ([tmp_path / "*.parquet", files[0], files[0]], 1_110),
        (files[2:], 1_000),
        ([files[2], files[2]], 1_000),
    ):
        report = json.loads(_run("audit", *named, "--json", "-").stdout)
        assert report["audit"]["records"] == records
    files[1].write_bytes(b"no table")
    run = _run("audit", *files)
    assert run.exit_code == 2
    assert "a1.parquet and 2 other files: Some rows can't be read (ComputeError)." in run.stderr


def test_prices_are_imported_when_the_log_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else can run while they are: a long log takes as much longer."""
    log, place, order = tmp_path / "log.jsonl", frames.place, list[str]()
    call = {"ts": "2026-11-01T00:00:00Z", "provider": "openai", "model": "gpt-4o"}
    log.write_text(json.dumps({**call, "prompt_tokens": 1, "completion_tokens": 1}))

    def read(*source: Any, **options: Any) -> Any:
        order.append("log")
        return place(*source, **options)

    monkeypatch.setattr(frames, "place", read)
    monkeypatch.setattr(reports, "find_update", lambda: order.append("prices"))
    assert reports.audit_file(log, None).audit.records == 1
    assert order == ["log", "prices"]
