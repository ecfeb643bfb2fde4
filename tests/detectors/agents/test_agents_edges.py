"""Rare cases of the agents' ledger: other systems, odd files, other prices, other releases."""

import json
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from benchmarks.agent_sessions import write_sessions
from detectors.agents import pricing, reading, views
from detectors.agents.files import MAX_LINE_BYTES, Mark, read_file
from detectors.agents.folders import File, Source, find_files, find_sources
from detectors.agents.ledger import Ledger
from detectors.agents.watching import Watcher
from detectors.cli import agents as command
from detectors.cli import library
from detectors.cli.agents import agents
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case

JANUARY: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)


def message(at: datetime, name: str = "msg_1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 10}
    return {
        "sessionId": "s", "timestamp": at.isoformat(), "type": "assistant", "requestId": f"r{name}",
        "message": {"id": name, "role": "assistant", "model": "claude-opus-4-6", "usage": usage},
    } | more  # fmt: skip


def write(home: Path, *lines: Any, name: str = "s.jsonl") -> Path:
    path = home / ".claude" / "projects" / "p" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(":memory:")


def read(ledger: Ledger, home: Path) -> list[str]:
    return reading.update(ledger, find_sources({}, home), processes=1)


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("darwin", "Library/Application Support"), ("win32", "AppData/Roaming"), ("linux", ".config")],
)
def test_editors_keep_their_agents_where_the_system_says(
    platform: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    code = [each for each in find_sources({}, Path("/home/me")) if "Code" in each.folder.parts]
    assert {each.agent for each in code} == {"cline", "roo-code", "kilo-code"}
    assert all(str(each.folder).startswith(f"/home/me/{folder}/Code/") for each in code)


def test_variables_name_other_folders() -> None:
    env = {"CLAUDE_CONFIG_DIR": "/a,/b/projects", "CODEX_HOME": "/c", "OPENCODE_DATA_DIR": "/d"}
    folders = {
        str(each.folder) for each in find_sources(env | {"GEMINI_CLI_HOME": "/e"}, Path("/"))
    }
    assert {"/a/projects", "/b/projects", "/c/sessions", "/d", "/e/.gemini/tmp"} <= folders


def test_copilots_file_is_found_where_its_variable_says(tmp_path: Path) -> None:
    for name in ("Spans.jsonl", "other.jsonl", "deeper/spans.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    env = {"COPILOT_OTEL_FILE_EXPORTER_PATH": str(tmp_path / "Spans.jsonl")}
    sources = [each for each in find_sources(env, tmp_path) if each.adapter == "copilot_cli"]
    found = [file.path for source in sources for file in find_files(source, [])]
    assert found == [str(tmp_path / "Spans.jsonl")]


def test_each_variable_of_cline_names_its_folder() -> None:
    def folders(**env: str) -> list[str]:
        sources = find_sources(env, Path("/home/me"))
        return [str(each.folder) for each in sources if each.agent == "cline"][:2]

    assert folders(CLINE_DIR="/a") == ["/a/data/sessions", "/a/data/tasks"]
    assert folders(CLINE_DIR="/a", CLINE_DATA_DIR="/b") == ["/b/sessions", "/b/tasks"]
    named = {"CLINE_DIR": "/a", "CLINE_SESSION_DATA_DIR": "/c"}
    assert folders(**named) == ["/c", "/a/data/tasks"]


def test_links_in_a_circle_are_followed_once(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path, message(JANUARY))
    (path.parent / "loop").symlink_to(path.parent)
    (path.parent / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    [problem] = read(ledger, tmp_path)
    assert problem == f"{path.parent / 'gone.jsonl'}: No such file or directory"
    assert ledger.database.execute("SELECT count(*) FROM calls").fetchone() == (1,)


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    problems: list[str] = []
    assert list(find_files(Source("codex", tmp_path, "codex"), problems)) == []
    assert problems == [f"{tmp_path}: Permission denied"]


def test_a_database_changes_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"12")
    (tmp_path / "opencode.db-wal").write_bytes(b"345")
    source = Source("opencode", tmp_path, "opencode", ("opencode.db",), is_deep=False)
    [file] = find_files(source, [])
    assert file.size == 5


def test_a_line_of_any_length_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger
) -> None:
    monkeypatch.setattr("detectors.agents.files.MAX_LINE_BYTES", 1_000)
    path = write(tmp_path, message(JANUARY, text="x" * 3_000_000))
    [problem] = read(ledger, tmp_path)
    assert problem.startswith(f"{path}: a line is longer than")
    assert MAX_LINE_BYTES > 1_000


def test_a_message_without_an_id_counts_once(tmp_path: Path, ledger: Ledger) -> None:
    line = message(JANUARY)
    del line["message"]["id"]
    del line["requestId"]
    write(tmp_path, line, line)
    write(tmp_path, line, name="copy.jsonl")
    assert read(ledger, tmp_path) == []
    assert ledger.database.execute("SELECT count(*) FROM calls").fetchone() == (1,)


Snapshot = tuple[int, str, int, int]  # after how many seconds, the request's ID, and the counts
BEGUN: Final[Snapshot] = (0, "r", 100, 1)
SNAPSHOTS: Final[dict[str, tuple[int, list[Snapshot]]]] = {
    "grown within a minute": (1, [BEGUN, (20, "r", 100, 9), (50, "r", 100, 40)]),
    "last with less": (1, [(0, "r", 100, 40), (20, "r", 100, 1)]),
    "longer than a minute": (2, [BEGUN, (50, "r", 100, 9), (100, "r", 100, 40)]),
    "out of order": (2, [(50, "r", 100, 9), (0, "r", 100, 1)]),
    "a prompt that is known late": (2, [(0, "r", 0, 1), (20, "r", 100, 9)]),
    "without a request's ID": (2, [BEGUN, (20, "", 100, 9)]),
    "of two requests": (2, [BEGUN, (20, "q", 100, 9)]),
    "of two prompts": (2, [BEGUN, (20, "r", 700, 9)]),
}


@each_case("name", SNAPSHOTS)
def test_snapshots_of_a_message_are_one_copy_and_the_call_that_scrub_finds(name: str) -> None:
    copies, snapshots = SNAPSHOTS[name]
    lines = []
    for seconds, asked, prompt, completion in snapshots:
        line = message(JANUARY + timedelta(seconds=seconds), requestId=asked)
        line["message"]["usage"] = {"input_tokens": prompt, "output_tokens": completion}
        lines.append(line)
    with TemporaryDirectory() as folder:
        ledger, scrubber = Ledger(":memory:"), Scrubber()
        path = write(Path(folder), *lines)
        read(ledger, Path(folder))
        assert ledger.database.execute("SELECT count(*) FROM seen").fetchone() == (copies,)
        # The same lines once more without the requests' IDs, which only their times tell apart.
        other = write(Path(folder), *({**line, "requestId": ""} for line in lines), name="o.jsonl")
        read(ledger, Path(folder))
        texts = [each.read_bytes() for each in (path, other)]
        log = b"".join(part for text in texts for part in scrubber.add(BytesIO(text)))
        found = map(json.loads, (log + b"".join(scrubber.close())).splitlines())
        query = "SELECT id, prompt, completion FROM calls ORDER BY at, prompt, completion"
        assert ledger.database.execute(query).fetchall() == [
            (each["request_id"], each["usage"]["prompt_tokens"], each["usage"]["completion_tokens"])
            for each in sorted(found, key=lambda each: (each["ts"], *each["usage"].values()))
        ]


def test_a_file_that_vanishes_is_said(tmp_path: Path) -> None:
    source = Source("codex", tmp_path, "codex")
    found = read_file(File(str(tmp_path / "gone.jsonl"), source, 1, 1, 1), Mark())
    assert found.problem == "No such file or directory"


def test_a_file_that_the_system_refused_is_tried_again_unchanged(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, message(JANUARY))

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", refuse)
        assert read(ledger, tmp_path) == [f"{path}: Permission denied"]
    assert read(ledger, tmp_path) == []
    assert ledger.database.execute("SELECT count(*) FROM calls").fetchone() == (1,)


def test_a_codex_session_that_grows_keeps_its_route_its_model_and_no_text(
    tmp_path: Path, ledger: Ledger
) -> None:
    """What a reading leaves for the next is checked: a route and a model, or an ID or its hash."""
    path = tmp_path / ".codex" / "sessions" / "2026" / "01" / "05" / "rollout-1.jsonl"
    path.parent.mkdir(parents=True)
    meta = {"id": "s-1", "cwd": "/home/dev/boats", "thread_source": "subagent"}
    meta["forked_from_id"] = "CANARY said the customer"
    usage = {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 5}

    def line(kind: str, **payload: Any) -> str:
        return json.dumps({"timestamp": JANUARY.isoformat(), "type": kind, "payload": payload})

    path.write_text(
        f"{line('session_meta', **meta)}\n{line('turn_context', model='openai/gpt-5.4')}\n"
    )
    read(ledger, tmp_path)
    assert b"CANARY" not in ledger.database.execute("SELECT mark FROM files").fetchone()[0]
    for number in (1, 2):
        total = {name: number * count for name, count in usage.items()}
        info = {"total_token_usage": total, "last_token_usage": usage}
        with path.open("a") as file:
            file.write(line("event_msg", type="token_count", info=info) + "\n")
        read(ledger, tmp_path)
    rows = ledger.database.execute("SELECT project, is_subagent, model FROM calls").fetchall()
    assert rows == [("boats", 1, "openai/gpt-5.4")] * 2


def test_what_was_skipped_is_counted_over_all_readings(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path, message(JANUARY))
    for number in (2, 3):
        with path.open("a") as file:
            file.write('{damaged "usage"\n' + json.dumps(message(JANUARY, f"m{number}")) + "\n")
        read(ledger, tmp_path)
    (unread,) = ledger.database.execute("SELECT unread FROM files").fetchone()
    assert json.loads(unread) == {"lines that aren't valid JSON": 2}


def test_forgotten_calls_stay_forgotten_when_their_file_is_read_again(
    tmp_path: Path, ledger: Ledger
) -> None:
    write(tmp_path, message(JANUARY))
    read(ledger, tmp_path)
    ledger.forget(int(datetime.now(UTC).timestamp() * 1e6))
    write(tmp_path, message(JANUARY), message(datetime.now(UTC), "new"), name="s.jsonl")
    read(ledger, tmp_path)
    assert [row[0] for row in ledger.database.execute("SELECT id FROM calls")] == ["new"]


@pytest.mark.parametrize("name", ["agents", "watch"])
def test_options_before_a_command_are_refused_instead_of_ignored(name: str, tmp_path: Path) -> None:
    inner = {"agents": "session", "watch": "status"}[name]
    result = CliRunner().invoke(library, [name, "--ledger", str(tmp_path / "l.db"), inner])
    assert result.exit_code == 2
    assert f"Put the options after '{inner}'." in result.stderr


def test_the_price_of_a_call_that_changed_meanwhile_is_not_kept(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, message(JANUARY))
    read(ledger, tmp_path)

    def change(*_: Any) -> float:
        ledger.database.execute("UPDATE calls SET changed = changed + 1")
        return 1.0

    monkeypatch.setattr(pricing, "sum_parts", change)
    reading.price(ledger)
    assert ledger.database.execute("SELECT usd FROM calls").fetchone() == (None,)


def test_gemini_projects_are_named_by_their_folder(tmp_path: Path, ledger: Ledger) -> None:
    for project in ("boats", "ab12" * 16):
        path = tmp_path / ".gemini" / "tmp" / project / "chats" / "session-1.json"
        path.parent.mkdir(parents=True)
        tokens = {"input": 5, "output": 6, "cached": 0, "thoughts": 0, "tool": 0, "total": 11}
        one = {
            "id": project[:5], "timestamp": JANUARY.isoformat(), "type": "gemini",
            "tokens": tokens, "model": "gemini-2.5-pro",
        }  # fmt: skip
        path.write_text(json.dumps({"sessionId": "s", "projectHash": "h", "messages": [one]}))
    assert read(ledger, tmp_path) == []
    found = ledger.database.execute("SELECT project FROM calls ORDER BY project").fetchall()
    assert found == [("ab12ab12",), ("boats",)]


def test_days_change_with_summer_time(tmp_path: Path, ledger: Ledger) -> None:
    late = [datetime(2026, month, 10, 22, 30, tzinfo=UTC) for month in (1, 7, 12)]
    write(tmp_path, *(message(at, f"msg_{at.month}") for at in late))
    read(ledger, tmp_path)
    groups = views.sum_calls(ledger, "daily", views.Choice(zone=ZoneInfo("Europe/Berlin")))
    assert [group.key for group in groups] == ["2026-12-10", "2026-07-11", "2026-01-10"]


def test_other_prices_price_all_calls_again(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, message(JANUARY))
    read(ledger, tmp_path)
    assert reading.price(ledger, may_load=False) == 1
    assert reading.price(ledger) == 0
    ledger.database.execute("UPDATE calls SET usd = 5")
    assert reading.price(ledger) == 0
    assert ledger.database.execute("SELECT usd FROM calls").fetchone() == (5,)
    monkeypatch.setattr(reading, "prices_version", lambda: "other")
    assert reading.price(ledger) == 0
    assert ledger.database.execute("SELECT round(usd, 6) FROM calls").fetchone() == (0.00075,)


def test_calls_that_are_priced_as_they_are_added_cost_what_they_do_later(tmp_path: Path) -> None:
    write_sessions(tmp_path, 4, 60_000, seed=7)
    found = []
    for prices in (True, False):
        ledger = Ledger(":memory:")
        reading.update(ledger, find_sources({}, tmp_path), processes=1, prices=prices)
        assert ledger.has_unpriced() is not prices
        reading.price(ledger)
        found.append(ledger.database.execute("SELECT id, usd FROM calls ORDER BY id").fetchall())
        assert ledger.database.execute("SELECT count(*) FROM rates").fetchone()[0] > 2
    assert found[0] == found[1]


def test_an_update_of_the_prices_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "tallystick").mkdir()
    (tmp_path / "tallystick" / "prices.json").write_text("damaged")
    assert pricing.load_book().find_listing("openai", "gpt-5.4")


def test_a_model_without_a_price_has_no_dollars(tmp_path: Path, ledger: Ledger) -> None:
    line = message(JANUARY)
    line["message"]["model"] = "a-model-of-nobody"
    write(tmp_path, line)
    read(ledger, tmp_path)
    reading.price(ledger)
    [group] = views.sum_calls(ledger, "model", views.Choice())
    assert (group.sums.unpriced_calls, group.sums.usd) == (1, 0.0)


def test_prices_stay_within_a_model_with_dates_and_lengths() -> None:
    from detectors.prices.book import PriceBook

    book = PriceBook()
    for provider, model in (("anthropic", "claude-sonnet-4-5"), ("google", "gemini-2.5-pro")):
        listing = book.find_listing(provider, model)
        assert listing
        cells = pricing.cells_of(listing, "", "")
        for at in (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)):
            for prompt in (1_000, 250_000):
                rates = listing.find_rates(at, prompt)
                cell = cells.find(int(at.timestamp()) * 1_000_000, prompt, 0)
                assert rates
                assert cell
                assert (cell.input, cell.output) == (rates.input_usd, rates.output_usd)


def test_a_ledger_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "ledger.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    result = CliRunner().invoke(agents, ["--ledger", str(tmp_path / "ledger.db")])
    assert result.exit_code == 2
    assert "a newer version of Tallystick wrote this ledger" in result.stderr
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(agents, ["--ledger", str(tmp_path / "file" / "ledger.db")])
    assert result.exit_code == 2
    assert "cannot open" in result.stderr or "cannot use" in result.stderr


def test_a_watcher_goes_round_until_it_is_stopped(tmp_path: Path, ledger: Ledger) -> None:
    rounds: list[float] = []

    def wait(seconds: float) -> bool:
        rounds.append(seconds)
        write(tmp_path, *(message(JANUARY, f"msg_{number}") for number in range(len(rounds))))
        return len(rounds) < 3

    Watcher(ledger, sources=find_sources({}, tmp_path)).run(0.5, wait)
    assert rounds == [0.5] * 3
    assert ledger.database.execute("SELECT count(*) FROM calls").fetchone() == (2,)


def test_live_repeats_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    def sleep(_: float) -> None:
        if len(shown) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    command._repeat(lambda: shown.append(1))
    assert len(shown) == 2


def test_many_files_that_cannot_be_read_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sessions(tmp_path, 0, 0)
    folder = tmp_path / ".codex" / "sessions"
    folder.mkdir(parents=True)
    for number in range(7):
        (folder / f"{number}.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfdnothing")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    result = CliRunner().invoke(agents, ["daily"])
    assert result.stderr.count("Not read: ") == 5
    assert "and 2 more; `tallystick agents sources` lists them" in result.stderr
