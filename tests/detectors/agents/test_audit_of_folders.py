"""`tallystick audit` of folders, several files and patterns: scrubbed in memory."""

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from benchmarks.agent_sessions import Billed, write_sessions
from detectors.cli import library
from tests.cases import each_case

COUNTS: Final = {
    "ts": "2026-09-21T14:13:20Z", "provider": "openai", "model": "gpt-5.4",
    "usage": {"prompt_tokens": 100_000, "completion_tokens": 0},
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Billed]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_sessions(home, 6, 150_000, seed=3)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(library, ["audit", *map(str, arguments)])


def test_a_folder_of_sessions_is_audited_as_it_is(corpus: tuple[Path, list[Billed]]) -> None:
    home, calls = corpus
    result = run(home, "--json", "-")
    assert result.exit_code == 0, result.output
    usage = json.loads(result.stdout)["plan_usage"]
    assert usage["calls"] == len(calls)
    assert {route["route"].removesuffix("#subagent") for route in usage["routes"]} == {
        call.project for call in calls
    }
    assert "No text was kept." in result.stderr


def test_the_report_says_that_it_was_scrubbed(corpus: tuple[Path, list[Billed]]) -> None:
    home, calls = corpus
    files = sum(1 for _ in home.rglob("*.jsonl"))
    said = f"Scrubbed {files} files in memory and found {len(calls)} calls. No text was kept."
    printed = run(home).stdout
    assert said in printed
    assert "run `tallystick agents findings`" in printed


def test_a_folder_without_sessions_says_nothing_of_them(tmp_path: Path) -> None:
    row = {"model": "gpt-5-mini", "created": 1_790_000_000, "id": "chatcmpl-1"}
    row["usage"] = {"prompt_tokens": 10, "completion_tokens": 2}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n")
    printed = run(tmp_path).stdout
    assert "No text was kept." in printed
    assert "agents findings" not in printed


def test_several_folders_files_and_patterns_are_one_log(
    corpus: tuple[Path, list[Billed]], tmp_path: Path
) -> None:
    home, calls = corpus
    own = tmp_path / "usage.jsonl"
    own.write_text(f"{json.dumps(COUNTS)}\n")
    for given in (
        (home / ".claude", home / ".codex", own),
        (home / ".claude", f"{home}/.codex/**/*.jsonl", own),
    ):
        report = json.loads(run(*given, "--json", "-").stdout)
        assert report["plan_usage"]["calls"] == len(calls)
        assert report["audit"]["total_spend_usd"] == 0.25


@each_case(
    ("given", "said"),
    [
        (["missing.jsonl", "other.jsonl"], "cannot read missing.jsonl: No such file"),
        (["nothing-*.jsonl"], "cannot read nothing-*.jsonl: No such file or directory, and as a"),
    ],
)
def test_what_is_not_there_is_named(given: list[str], said: str) -> None:
    result = run(*given)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_folder_without_calls_says_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("CANARY")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "We found no calls." in result.stderr
    assert "no log by its name or content" in result.stderr
    assert "CANARY" not in result.output
