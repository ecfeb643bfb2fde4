"""`tallystick agents`: what it prints, in terminals of every width and as data, and how fast."""

import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from benchmarks.agent_sessions import Billed, write_sessions
from detectors.cli import library
from detectors.cli.agents import agents

Run = Callable[..., Result]
HEAVY: Final = ("polars", "genai_prices", "rich", "msgspec")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Billed]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_sessions(home, 12, 400_000, seed=7)


@pytest.fixture
def run(corpus: tuple[Path, list[Billed]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    home, _ = corpus
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def invoke(*arguments: str, given: str = "", width: int = 160) -> Result:
        monkeypatch.setenv("COLUMNS", str(width))
        result = CliRunner().invoke(library, ["agents", *arguments], input=given)
        assert result.exit_code == 0, result.output
        return result

    yield invoke
    monkeypatch.undo()
    time.tzset()


def rows_of(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def test_days_have_their_calls_newest_first(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    rows = rows_of(run("daily", "--json"))
    days = [row["period"] for row in rows]
    assert days == sorted({f"{call.at:%Y-%m-%d}" for call in corpus[1]}, reverse=True)
    for row in rows:
        own = [call for call in corpus[1] if f"{call.at:%Y-%m-%d}" == row["period"]]
        assert row["calls"] == len(own)
        assert row["output_tokens"] == sum(call.completion for call in own)
        assert row["calls"] == sum(each["calls"] for each in row["agents"].values())
        assert row["calls"] == sum(each["calls"] for each in row["models"].values())
        assert row["value_usd"] > 0
        assert row["billed_usd"] == 0


@pytest.mark.parametrize("by", ["weekly", "monthly", "session", "project", "model"])
def test_every_sum_has_every_call(run: Run, corpus: tuple[Path, list[Billed]], by: str) -> None:
    document = json.loads(run(by, "--json").stdout)
    assert document["by"] == by
    assert document["not_read"] == []
    assert sum(row["calls"] for row in document["rows"]) == len(corpus[1])
    assert document["total"]["calls"] == len(corpus[1])
    name = by if by in ("session", "project", "model") else "period"
    assert all(row[name] for row in document["rows"])


def test_weeks_begin_on_monday(run: Run) -> None:
    days = [datetime.fromisoformat(row["period"]) for row in rows_of(run("weekly", "--json"))]
    assert {day.weekday() for day in days} == {0}


def test_days_are_those_of_a_time_zone(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    far = rows_of(run("daily", "--json", "--tz", "Pacific/Kiritimati"))
    days = {f"{call.at + timedelta(hours=14):%Y-%m-%d}" for call in corpus[1]}
    assert {row["period"] for row in far} == days


def test_rows_are_chosen_by_day_project_and_agent(
    run: Run, corpus: tuple[Path, list[Billed]]
) -> None:
    first = min(call.at for call in corpus[1]).date()
    [row] = rows_of(run("daily", "--json", "--until", f"{first:%Y%m%d}"))
    assert row["period"] == str(first)
    assert len(rows_of(run("daily", "--json", "--last", "2"))) == 2
    assert rows_of(run("daily", "--json", "-o", "asc"))[0]["period"] == str(first)
    project = corpus[1][0].project
    rows = rows_of(run("daily", "--json", "--project", project, "--agent", "codex"))
    own = [call for call in corpus[1] if (call.project, call.agent) == (project, "codex")]
    assert sum(row["calls"] for row in rows) == len(own)
    rows = rows_of(run("daily", "--json", "--instances"))
    assert {row["project"] for row in rows} == {call.project for call in corpus[1]}


def test_csv_has_a_line_for_each_day_and_agent(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    rows = list(csv.DictReader(StringIO(run("daily", "--csv").stdout)))
    assert sum(int(row["calls"]) for row in rows) == len(corpus[1])
    assert {row["agent"] for row in rows} == {"claude-code", "codex"}


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
@pytest.mark.parametrize("by", ["daily", "session", "project", "model"])
def test_tables_fit_their_terminal(run: Run, width: int, by: str) -> None:
    lines = run(by, "--breakdown", width=width).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert not any("-$" in line or "-0" in line.split()[-1:] for line in lines)
    assert lines[2:]


def test_wide_terminals_have_more_columns(run: Run) -> None:
    narrow, wide = run("daily", width=80).stdout, run("daily", width=160).stdout
    assert "Cache read" not in narrow
    assert all(name in wide for name in ("Models", "Cache read", "Reasoning", "Sub-agents"))
    assert "Value is what the API would charge" in " ".join(narrow.split())


def test_windows_of_five_hours_have_every_call(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    blocks = json.loads(run("blocks", "--json").stdout)["blocks"]
    own = [call for call in corpus[1] if call.agent == "claude-code"]
    assert sum(block["calls"] for block in blocks) == len(own)
    assert not any(block["active"] for block in blocks)
    assert run("blocks", "--active").stdout == "No five-hour window has calls.\n"
    assert "Window" in run("blocks").stdout


def test_a_current_window_has_its_rate_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC) - timedelta(minutes=30)
    write_sessions(tmp_path, 0, 0)
    usage = {"input_tokens": 1_000, "output_tokens": 1_000}
    line = {
        "sessionId": "s", "timestamp": now.isoformat(), "type": "assistant", "requestId": "req_1",
        "message": {"id": "msg_1", "role": "assistant", "model": "claude-opus-4-6", "usage": usage},
    }  # fmt: skip
    path = tmp_path / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(f"{json.dumps(line)}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    result = CliRunner().invoke(agents, ["blocks", "--active", "--json"])
    [block] = json.loads(result.stdout)["blocks"]
    assert block["active"]
    assert 60 <= block["tokens_per_minute"] <= 70
    assert block["projected_tokens"] > 10_000
    assert "At this rate the window ends with" in CliRunner().invoke(agents, ["blocks"]).stdout


def test_plan_windows_are_shown(run: Run) -> None:
    said = " ".join(run("daily").stdout.split())
    assert "Codex (plus): 12% of the weekly limit used, reset" in said
    assert "of the 5-hour limit used" in said


def test_the_status_line_keeps_claude_codes_limits(run: Run) -> None:
    given = {
        "session_id": "none", "model": {"id": "claude-opus-4-6", "display_name": "Opus"},
        "rate_limits": {
            "five_hour": {"used_percentage": 41.2, "resets_at": 4_000_000_000},
            "seven_day": {"used_percentage": 18, "resets_at": 4_000_000_000},
        },
    }  # fmt: skip
    line = run("statusline", given=json.dumps(given)).stdout
    assert line == "Opus · session $0.00 · today $0.00 · 5h 41% · week 18%\n"
    given["rate_limits"]["five_hour"]["used_percentage"] = 7  # type: ignore[index]
    run("statusline", given=json.dumps(given))
    said = " ".join(run("daily").stdout.split())
    assert "Claude Code: 7% of the 5-hour limit used" in said
    given["rate_limits"]["five_hour"]["resets_at"] = 4_000_003_600_000  # type: ignore[index]
    given["rate_limits"]["seven_day"]["resets_at"] = 4e18  # type: ignore[index]
    run("statusline", given=json.dumps(given))
    said = " ".join(run("daily", "--tz", "UTC").stdout.split())
    assert "Claude Code: 7% of the 5-hour limit used, resets" in said
    assert "peak 41% over 2 windows" in said
    assert run("statusline", given="{}").stdout.startswith("today $")


def test_the_status_line_refuses_what_is_no_json() -> None:
    result = CliRunner().invoke(agents, ["statusline"], input="text")
    assert result.exit_code == 2
    assert "isn't Claude Code's status line JSON" in result.stderr


def test_sources_lists_every_folder(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    document = json.loads(run("sources", "--json").stdout)
    states = {(each["agent"], each["folder"]): each for each in document["sources"]}
    own = states["Claude Code", str(corpus[0] / ".claude" / "projects")]
    assert own["state"] == "found"
    assert own["files"] > 5
    assert states["Amp", str(corpus[0] / ".local" / "share" / "amp" / "threads")]["state"] == (
        "missing"
    )
    assert sum(document["calls"].values()) == len(corpus[1])


@pytest.mark.parametrize("width", [80, 160])
def test_sources_and_findings_fit_their_terminal(run: Run, width: int) -> None:
    for command in ("sources", "findings"):
        printed = run(command, width=width).stdout
        assert max(map(len, printed.splitlines())) <= width, command
    assert re.search(r"Roo Code +~/.*tasks +missing", run("sources", width=width).stdout)


def test_a_folder_of_an_agent_without_calls_in_its_files_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".copilot" / "session-state").mkdir(parents=True)
    printed = CliRunner().invoke(agents, ["sources"]).stdout
    assert re.search(r"Copilot CLI +~/.copilot/session-state +no calls in files", printed)


def test_a_session_is_explained_call_by_call(run: Run, corpus: tuple[Path, list[Billed]]) -> None:
    for agent in ("claude-code", "codex"):
        session = next(call.session for call in corpus[1] if call.agent == agent)
        calls = json.loads(run("explain", session[:18], "--json").stdout)["calls"]
        own = [call for call in corpus[1] if call.session == session]
        assert [call["prompt_tokens"] for call in calls] == [call.prompt for call in own]
        for call in calls:
            assert abs(sum(part["usd"] for part in call["parts"]) - call["usd"]) < 1e-6
            is_advisor = call["model"] == "claude-opus-4-7"  # its usage is within another's
            assert ("tokens" in call["raw"]) is not is_advisor
        assert "as logged: {" in run("explain", session).stdout
    result = CliRunner().invoke(agents, ["explain", "nothing"])
    assert result.exit_code == 2
    assert "No session begins with nothing." in result.stderr


def test_a_machine_without_agents_has_a_list_of_where_we_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "We found no calls." in CliRunner().invoke(agents, []).stdout
    assert json.loads(CliRunner().invoke(agents, ["--json"]).stdout)["rows"] == []


def test_wrong_options_and_ledgers_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database at all, but text" * 100)
    for options, said in (
        (["--ledger", str(tmp_path / "broken.db")], "cannot use the ledger"),
        (["--since", "yesterday"], "use a date such as"),
        (["--tz", "Nowhere/Else"], "use a time zone such as"),
    ):
        result = CliRunner().invoke(agents, options)
        assert result.exit_code == 2
        assert said in result.stderr


def test_the_second_run_imports_neither_the_dataframe_library_nor_the_prices(
    run: Run, corpus: tuple[Path, list[Billed]]
) -> None:
    run("daily")
    code = (
        "import sys\nfrom detectors.cli import library\n"
        "try:\n    library(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "HOME": str(corpus[0])}
    done = subprocess.run(
        [sys.executable, "-c", code, "agents", "daily"],
        capture_output=True, text=True, env=env, check=True,
    )  # fmt: skip
    assert done.stderr == "[]\n"
    assert "Total" in done.stdout
