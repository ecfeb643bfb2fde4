"""What the definitions of findings in sessions fire on, and stay quiet on."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest
from click.testing import CliRunner

from benchmarks.agent_findings import LEAST, find_in, score, score_habits
from benchmarks.agent_habits import LONG_SESSION, LOOP, SUBAGENTS, Habit, Habits
from benchmarks.agent_sessions import Folder, write_folder
from detectors.agents import reading
from detectors.agents.findings import ColdRestart, Estimate, Findings, find_all
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.agents.views import Choice
from detectors.cli import library
from detectors.cli.agent_tables import KINDS

NOON: Final = datetime(2026, 10, 5, 12, tzinfo=UTC)


def call(
    minutes: float, cached: int, written: int, *, is_hour: bool = False, **more: Any
) -> dict[str, Any]:
    lifetimes = {
        "ephemeral_5m_input_tokens": 0 if is_hour else written,
        "ephemeral_1h_input_tokens": written if is_hour else 0,
    }
    usage = {
        "input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written, "cache_creation": lifetimes,
    }  # fmt: skip
    at = NOON + timedelta(minutes=minutes)
    message = {
        "id": more.pop("id", f"msg_{minutes}"), "role": "assistant",
        "model": more.pop("model", "claude-opus-4-6"), "usage": usage,
    }  # fmt: skip
    return {
        "sessionId": "s1", "timestamp": at.isoformat(), "type": "assistant",
        "cwd": "/home/dev/boats", "requestId": f"req_{minutes}", "message": message,
    } | more  # fmt: skip


def find(home: Path, *lines: dict[str, Any]) -> list[ColdRestart]:
    path = home / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ledger = Ledger(":memory:")
    reading.update(ledger, find_sources({}, home), processes=1)
    reading.price(ledger)
    return find_all(ledger, Choice()).cold_restarts


def test_a_context_that_was_written_again_after_a_pause_is_a_cold_restart(tmp_path: Path) -> None:
    lines = call(0, 0, 40_000), call(1, 40_000, 2_000), call(8, 0, 43_000)
    [found] = find(tmp_path, *lines)
    assert (found.project, found.session, found.pause_seconds) == ("boats", "s1", 420)
    assert (found.tokens, found.lifetime_seconds) == (42_000, 300)
    # Opus 4.6: $6.25 to write a million tokens, $0.50 to read them.
    assert found.usd == pytest.approx(42_000 * 5.75 / 1e6)
    assert found.is_metered is False


def test_what_was_written_for_an_hour_costs_twice_the_input(tmp_path: Path) -> None:
    lines = call(0, 0, 40_000, is_hour=True), call(61, 0, 41_000, is_hour=True)
    [found] = find(tmp_path, *lines)
    assert (found.tokens, found.lifetime_seconds) == (40_000, 3_600)
    assert found.usd == pytest.approx(40_000 * 9.5 / 1e6)


BEFORE: Final = call(0, 0, 40_000)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((BEFORE, call(8, 40_000, 1_000)), id="the cache was kept"),
        pytest.param((BEFORE, call(4, 0, 41_000)), id="lost without a pause"),
        pytest.param(
            (call(0, 0, 40_000, is_hour=True), call(50, 0, 41_000, is_hour=True)),
            id="lost in an hour",
        ),
        pytest.param((BEFORE, call(8, 30_000, 11_000)), id="most of it was kept"),
        pytest.param((BEFORE, call(8, 0, 900)), id="a new context, smaller than what is cached"),
        pytest.param((call(0, 0, 1_000), call(8, 0, 1_100)), id="less than is cached"),
        pytest.param((BEFORE, call(8, 0, 41_000, sessionId="s2")), id="another session"),
        pytest.param((BEFORE, call(8, 0, 41_000, model="claude-sonnet-4-6")), id="another model"),
        pytest.param((BEFORE, call(8, 0, 41_000, isSidechain=True)), id="a sub-agent"),
        pytest.param((call(8, 0, 40_000),), id="the first call"),
    ],
)
def test_it_stays_quiet(tmp_path: Path, lines: tuple[dict[str, Any], ...]) -> None:
    assert find(tmp_path, *lines) == []


def test_a_model_without_a_price_has_tokens_and_no_dollars(tmp_path: Path) -> None:
    lines = (call(0, 0, 40_000, model="mystery"), call(8, 0, 41_000, model="mystery"))
    [found] = find(tmp_path, *lines)
    assert (found.tokens, found.usd) == (40_000, None)


def test_planted_restarts_are_found_in_dollars(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 40, 0, seed=3)
    found = find_in(tmp_path)
    result = score(folder.restarts, found.cold_restarts)
    assert result.planted > 1
    assert any(each.is_hour for each in folder.restarts)
    assert result.precision >= LEAST
    assert result.recall >= LEAST
    # Small sub-agents, pauses of less than an hour, results of any size.
    assert (found.long_sessions, found.large_subagents, found.retry_loops) == ([], [], [])


@pytest.fixture(scope="module")
def habits(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Habit], Findings]:
    folder = Folder(tmp_path_factory.mktemp("habits"), random.Random(9), 200)
    habits = Habits(folder)
    habits.add(3)
    return habits.planted, find_in(folder.home)


@pytest.mark.parametrize("kind", [LONG_SESSION, SUBAGENTS, LOOP])
def test_planted_habits_are_found_in_dollars_and_traps_are_not(
    habits: tuple[list[Habit], Findings], kind: str
) -> None:
    result = score_habits(*habits, kind)
    assert len(getattr(habits[1], kind)) == 3
    assert result.planted > 0.1
    assert result.precision >= LEAST
    assert result.recall >= LEAST


def test_the_table_of_a_kind_knows_whether_it_is_an_estimate() -> None:
    classes = [get_args(hint)[0] for hint in get_type_hints(Findings).values()]
    assert [kind.is_estimate for kind in KINDS] == [issubclass(c, Estimate) for c in classes]


def test_estimates_have_a_range(habits: tuple[list[Habit], Findings]) -> None:
    _, found = habits
    for kind in (found.long_sessions, found.large_subagents, found.retry_loops):
        assert {each.least_usd for each in kind} == {0.0}
    assert {each.smaller_model for each in found.large_subagents} == {"claude-sonnet-4-6"}
    assert {each.result_tokens for each in found.retry_loops} == {700}


def test_habits_of_a_model_without_a_price_have_no_dollars(tmp_path: Path) -> None:
    growing = [call(n, 1_000 * n, 1_000, model="mystery") for n in range(40)]
    late = [call(n + 200, 1_000 * n, 1_000, model="mystery") for n in range(40, 50)]
    path = tmp_path / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [*growing, *late]))
    found = find_in(tmp_path)
    [long], [loop] = found.long_sessions, found.retry_loops
    assert (long.tokens, long.calls, long.usd, long.least_usd) == (389_990, 10, None, None)
    assert (loop.calls, loop.result_tokens, loop.usd, loop.least_usd) == (47, 1_000, None, None)


def test_the_command_speaks_of_value_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    find(tmp_path, call(0, 0, 400_000), call(8, 0, 410_000))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(library, ["agents", "findings", "--tz", "UTC", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    said = " ".join(run().split())
    assert "2026-10-05 12:08 boats s1 8 min 400K $2.30 value" in said
    assert "No long sessions found. No large sub-agents found. No retry loops found." in said
    assert "1 cold restart: $2.30 value, " in said
    assert not any(word in said for word in ("spend", "save", "waste", "billed"))
    document = json.loads(run("--json"))
    [row] = document["cold_restarts"]
    assert (row["at"], row["tokens"], row["usd"]) == ("2026-10-05T12:08:00.000Z", 400_000, 2.3)
    assert "No cold restarts found." in run("--project", "other")
