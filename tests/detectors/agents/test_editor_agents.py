"""Cline, Roo Code, Kilo Code and Amp: folders as these agents write them, with known bills."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner

from detectors.agents import reading
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.cli import library
from detectors.formats import read_chunks, records_of
from detectors.formats.adapters.agents import cline as cline_tasks
from tests.cases import data_of

CANARY: Final = "CANARY the customer said"
EDITOR: Final = Path(".config/Code/User/globalStorage")
CLINE, ROO, KILO = "saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"
TASK: Final = "0b8f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b11"
Row = tuple[Any, ...]


def request(ts: int, model: str = "", **counts: Any) -> dict[str, Any]:
    text = json.dumps({"request": CANARY, **counts} if counts else {})
    row = {"ts": ts, "type": "say", "say": "api_req_started", "text": text}
    if model:
        provider, _, name = model.partition(" ")
        row["modelInfo"] = {"providerId": provider, "modelId": name, "mode": "act"}
    return row


def counts(tokens_in: int, out: int, read: int, written: int, cost: float) -> dict[str, Any]:
    return {
        "tokensIn": tokens_in, "tokensOut": out, "cacheReads": read, "cacheWrites": written,
        "cost": cost,
    }  # fmt: skip


def said(ts: int) -> dict[str, Any]:
    return {"ts": ts, "type": "say", "say": "text", "text": CANARY, "partial": False}


def prompt(ts: int, folder: str, model: str = "") -> dict[str, Any]:
    named = f"# Current Mode\n<slug>code</slug>\n<name>Code</name>\n<model>{model}</model>\n"
    details = (
        f"<environment_details>\n# VSCode Visible Files\n{CANARY}\n{named if model else ''}\n"
        f"# Current Work{'space' if model else 'ing'} Directory ({folder}) Files\n{CANARY}"
    )
    blocks = [{"type": "text", "text": CANARY}, {"type": "text", "text": details}]
    return {"role": "user", "content": blocks, "ts": ts}


def answer(ts: int) -> dict[str, Any]:
    # What a person wrote about models is no model.
    block = {"type": "text", "text": f'{CANARY} <model>gpt-5.4</model> "ts":1790000000000'}
    return {"role": "assistant", "content": [block], "ts": ts}


def write_task(folder: Path, name: str = TASK, **files: Any) -> Path:
    path = folder / "tasks" / name
    path.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (path / f"{file}.json").write_text(json.dumps(content))
    return path


def read(home: Path, ledger: Ledger | None = None) -> Ledger:
    ledger = ledger or Ledger(":memory:")
    assert reading.update(ledger, find_sources({}, home), processes=1) == []
    return ledger


def rows(ledger: Ledger, *names: str) -> list[Row]:
    query = f"SELECT {', '.join(names)} FROM calls ORDER BY at, id"
    return ledger.database.execute(query).fetchall()


BILL: Final = ("model", "prompt", "completion", "cached", "written", "reported")


def cline(home: Path) -> list[Row]:
    """Write tasks of several releases and a session; return the agents, projects and bills."""
    folder = home / EDITOR / CLINE
    write_task(
        folder, "1750000000000",
        ui_messages=[
            said(1_750_000_000_000),
            request(1_750_000_001_000, **counts(4, 310, 0, 14_200, 0.0579)),
            request(1_750_000_031_000, **counts(6, 90, 14_200, 300, 0.0068)),
            request(1_750_000_041_000),  # without an answer
            {**said(1_750_000_051_000), "say": "deleted_api_reqs",
             "text": json.dumps(counts(900, 80, 0, 0, 0.01))},
        ],
        task_metadata={
            "files_in_context": [{"path": CANARY}],
            "model_usage": [
                {"ts": 1_750_000_000_900, "model_id": "claude-sonnet-4-20250514",
                 "model_provider_id": "anthropic", "mode": "plan"},
                {"ts": 1_750_000_030_000, "model_id": "anthropic/claude-sonnet-4",
                 "model_provider_id": "openrouter", "mode": "act"},
            ],
        },
        api_conversation_history=[prompt(1_750_000_001_200, "/home/dev/boats")],
    )  # fmt: skip
    write_task(
        folder, "1770000000000",
        ui_messages=[
            request(1_770_000_001_000, "claude-code sonnet", **counts(0, 0, 0, 0, 0)),
            request(1_770_000_001_500, "claude-code claude-sonnet-4-6", **counts(3, 50, 900, 0, 0)),
            request(1_770_000_002_000, "cline-pass claude-sonnet-4-6", **counts(3, 50, 900, 0, 0)),
        ],
    )  # fmt: skip
    session = home / ".cline" / "data" / "sessions" / "1780000000000_boats"
    session.mkdir(parents=True)
    (session / f"{session.name}.json").write_text(
        json.dumps({"session_id": session.name, "cwd": "/home/dev/boats", "prompt": CANARY})
    )
    (session / f"{session.name}.compaction.json").write_text(json.dumps({"messages": [CANARY]}))
    for agent, ts in (("lead", 1_780_000_001_000), ("agent_1", 1_780_000_002_000)):
        name = session.name if agent == "lead" else agent
        messages = [
            {"id": "msg_1", "role": "user", "content": CANARY},
            {"id": "msg_2", "role": "assistant", "ts": ts, "content": [{"text": CANARY}],
             "modelInfo": {"id": "claude-sonnet-4-6", "provider": "anthropic"},
             "metrics": {"inputTokens": 14_300, "outputTokens": 210, "cacheReadTokens": 14_000,
                         "cacheWriteTokens": 280, "cost": 0.0084}},
        ]  # fmt: skip
        document = {"version": 1, "agent": agent, "sessionId": name, "updated_at": "2026-05-28",
                    "system_prompt": CANARY, "messages": messages}  # fmt: skip
        (session / f"{name}.messages.json").write_text(json.dumps(document))
    return [
        ("boats", 0, 1, "claude-sonnet-4-20250514", 14_204, 310, 0, 14_200, 0.0579),
        ("boats", 0, 1, "anthropic/claude-sonnet-4", 14_506, 90, 14_200, 300, 0.0068),
        ("1770000000000", 0, 0, "claude-sonnet-4-6", 903, 50, 900, 0, 0.0),
        ("boats", 0, 1, "claude-sonnet-4-6", 14_300, 210, 14_000, 280, 0.0084),
        ("boats", 1, 1, "claude-sonnet-4-6", 14_300, 210, 14_000, 280, 0.0084),
    ]


def roo(folder: Path) -> list[Row]:
    """Write tasks from before and after the input had the cache, with another model midway."""
    early, late, model = 1_758_000_000_000, 1_765_000_000_000, "claude-sonnet-4-20250514"
    write_task(
        folder,
        ui_messages=[
            request(early + 1_000, apiProtocol="anthropic", **counts(1_000, 300, 300, 200, 0.01)),
            request(early + 9_000, apiProtocol="openai", **counts(1_000, 60, 300, 0, 0.002)),
        ],
        api_conversation_history=[
            prompt(early + 1_300, "/home/dev/boats", model), answer(early + 5_000),
            prompt(early + 9_200, "/home/dev/boats", "gpt-5-mini"), answer(early + 12_000),
        ],
    )  # fmt: skip
    write_task(
        folder, f"{TASK}-2",
        ui_messages=[
            request(late + 1_000, apiProtocol="anthropic", **counts(1_500, 300, 300, 200, 0.01)),
            request(late + 9_000, apiProtocol="openai", **counts(1_000, 60, 300, 0, 0.002)),
        ],
        api_conversation_history=[prompt(late + 1_300, "/home/dev/boats", model)],
    )  # fmt: skip
    return [
        ("boats", 0, 1, model, 1_500, 300, 300, 200, 0.01),
        ("boats", 0, 1, "gpt-5-mini", 1_000, 60, 300, 0, 0.002),
        ("boats", 0, 1, model, 1_500, 300, 300, 200, 0.01),
        ("boats", 0, 1, model, 1_000, 60, 300, 0, 0.002),
    ]


def amp(home: Path) -> list[Row]:
    """Write a thread with a ledger, one without, and one that continues it."""
    folder = home / ".local" / "share" / "amp" / "threads"
    folder.mkdir(parents=True)
    env = {"initial": {"trees": [{"displayName": CANARY, "uri": "file:///home/dev/boats"}]}}

    def message(place: int, at: str, *numbers: int) -> dict[str, Any]:
        names = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
        usage: dict[str, Any] = dict(zip(names, numbers, strict=True))
        usage |= {"model": "claude-opus-4-5-20251101", "timestamp": at, "maxInputTokens": 168_000}
        return {"role": "assistant", "messageId": place, "content": [CANARY], "usage": usage}

    first = message(1, "2026-09-21T14:13:20.250Z", 10, 178, 986, 11_372)
    second = message(2, "2026-09-21T14:13:50.100Z", 5, 42, 0, 12_000)
    third = message(1, "2026-09-21T14:15:00.100Z", 20, 400, 5_000, 0)
    threads: list[dict[str, Any]] = [
        {"id": "T-1", "messages": [{"role": "user", "content": CANARY}, first]},
        {"id": "T-2", "messages": [first, second]},
        {
            "id": "T-3",
            "messages": [third],
            "usageLedger": {"events": [
                {"timestamp": "2026-09-21T14:15:00.100Z", "model": "claude-opus-4-5-20251101",
                 "credits": 1.2, "tokens": {"input": 20, "output": 400}, "toMessageId": 1},
                {"timestamp": "2026-09-21T14:15:02.000Z", "model": "claude-haiku-4-5-20251001",
                 "credits": 0.1, "tokens": {"input": 300, "output": 12}, "toMessageId": 9},
            ]},
        },
    ]  # fmt: skip
    for thread in threads:
        text = json.dumps({"v": 3, "title": CANARY, "agentMode": "smart", "env": env, **thread})
        (folder / f"{thread['id']}.json").write_text(text)
    opus = "claude-opus-4-5-20251101"
    return [
        ("boats", 0, 1, opus, 12_368, 178, 11_372, 986, None),
        ("boats", 0, 1, opus, 12_005, 42, 12_000, 0, None),
        ("boats", 0, 1, opus, 5_020, 400, 0, 5_000, None),
        ("boats", 0, 1, "claude-haiku-4-5-20251001", 300, 12, 0, 0, None),
    ]


def corpus(home: Path) -> dict[str, list[Row]]:
    return {"cline": cline(home), "roo-code": roo(home / EDITOR / ROO), "amp": amp(home)}


def test_each_agents_bill_is_the_known_one(tmp_path: Path) -> None:
    known = corpus(tmp_path)
    ledger = read(tmp_path)
    found = rows(ledger, "agent", "project", "is_subagent", "is_metered", *BILL)
    for agent, bill in known.items():
        assert [row[1:] for row in found if row[0] == agent] == bill, agent
    assert len(found) == sum(map(len, known.values()))
    unread = [json.loads(row[0]) for row in ledger.database.execute("SELECT unread FROM files")]
    assert [reasons for reasons in unread if reasons] == [
        {"totals instead of calls": 1},
        {"requests through Claude Code or Codex, which their own files have": 1},
    ]


def test_kilo_code_is_read_from_an_editor_and_from_its_database(tmp_path: Path) -> None:
    roo(tmp_path / EDITOR / KILO)
    path = tmp_path / ".local" / "share" / "kilo" / "kilo.db"
    path.parent.mkdir(parents=True)
    data = {
        "role": "assistant", "modelID": "anthropic/claude-sonnet-4.5", "providerID": "kilo",
        "cost": 0.02, "time": {"created": 1_790_000_000_250}, "path": {"cwd": "/home/dev/boats"},
        "tokens": {"input": 20, "output": 9, "reasoning": 0, "cache": {"read": 500, "write": 0}},
    }  # fmt: skip
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE message (id, session_id, time_created, time_updated, data)")
    row = ("msg_1", "ses_1", 1_790_000_000_250, 0, json.dumps(data))
    none = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    old = data | {"modelID": "legacy", "providerID": "legacy", "cost": 0, "tokens": none}
    moved = ("msg_0", "ses_0", 1_760_000_000_000, 0, json.dumps(old))  # from an editor's task
    database.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?)", [row, moved])
    database.commit()
    database.close()
    found = rows(read(tmp_path), "agent", "project", "prompt", "cached", "reported")
    assert len(found) == 5
    assert found[-1] == ("kilo-code", "boats", 520, 500, 0.02)
    assert {row[0] for row in found} == {"kilo-code"}


def test_a_request_that_grows_and_a_copy_of_its_task_count_once(tmp_path: Path) -> None:
    ledger, folder = Ledger(":memory:"), tmp_path / EDITOR / CLINE
    model, started = "anthropic claude-sonnet-4-5", 1_770_000_001_000
    for grown in ({}, counts(4, 10, 0, 900, 0.001), counts(4, 310, 0, 900, 0.009)):
        path = write_task(folder, ui_messages=[request(started, model, **grown), said(started + 9)])
        read(tmp_path, ledger)
    assert rows(ledger, *BILL) == [("claude-sonnet-4-5", 904, 310, 0, 900, 0.009)]
    other = tmp_path / ".config" / "Cursor" / "User" / "globalStorage" / CLINE / "tasks" / TASK
    shutil.copytree(path, other)
    shutil.rmtree(path)
    read(tmp_path, ledger)
    assert rows(ledger, "completion", "session") == [(310, TASK)]


def test_an_old_input_of_roo_code_of_which_nothing_says_whether_it_has_the_cache_is_assumed(
    tmp_path: Path,
) -> None:
    early = 1_745_000_000_000
    write_task(
        tmp_path / EDITOR / ROO,
        ui_messages=[
            request(early, **counts(4, 30, 300, 200, 0.01)),  # it can't have it
            request(early + 9, **counts(1_000, 60, 300, 0, 0.002)),
        ],
        api_conversation_history=[prompt(early, "/home/dev/boats", "claude-sonnet-4-20250514")],
    )
    ledger = read(tmp_path)
    assert [row[0] for row in rows(ledger, "prompt")] == [504, 1_000]
    bodies = [msgspec.msgpack.decode(row[0]) for row in rows(ledger, "body")]
    assert [body.get("input_assumed") for body in bodies] == [1, 1]


LATE: Final = 1_775_000_000_000
INPUTS, UNSURE_INPUTS = data_of(__file__).values()


def test_the_input_of_each_of_clines_providers_has_the_cache_once(tmp_path: Path) -> None:
    cases = [
        *((*each[:3], True) for each in INPUTS),
        *((*each[:3], False) for each in UNSURE_INPUTS),
    ]
    for place, (provider, ts, (given, cached, written), _) in enumerate(cases):
        call = request(ts, provider, **counts(given, 40, cached, written, 0.01))
        write_task(tmp_path / EDITOR / CLINE, f"task-{place}", ui_messages=[call])
    ledger = read(tmp_path)
    found = {
        row[0]: row[1:] for row in rows(ledger, "session", "prompt", "cached", "written", "body")
    }
    assert len(found) == len(cases)
    for place, (provider, ts, _, is_sure) in enumerate(cases):
        *tokens, body = found[f"task-{place}"]
        if is_sure:
            assert tokens == INPUTS[place][3], (provider, ts)
        else:
            assert tokens[0] == UNSURE_INPUTS[place - len(INPUTS)][3], (provider, ts)
        assert ("input_assumed" in msgspec.msgpack.decode(body)) is not is_sure, (provider, ts)


WARNING: Final = (
    "Warning: this is a legacy conversation, which means tool names may have changed. Please use "
    "the most up-to-date tools you are aware of."
)


def asked(place: int, text: str = CANARY) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"id": f"msg_{place}", "role": "user", "content": content}


def result(place: int) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": "call_1", "content": CANARY}]
    return {"id": f"msg_{place}", "role": "user", "content": content}


def answered(place: int, tokens: int | None = None, provider: str = "anthropic") -> dict[str, Any]:
    message = {
        "id": f"msg_{place}", "role": "assistant", "ts": 1_780_000_000_000 + place,
        "content": [{"type": "text", "text": f"{CANARY} {WARNING}"}],
        "modelInfo": {"id": "claude-sonnet-4-6", "provider": provider},
    }  # fmt: skip
    if tokens is not None:
        message["metrics"] = {"inputTokens": tokens, "outputTokens": 9, "cost": 0.01}
    return message


def write_session(home: Path, name: str, *messages: dict[str, Any]) -> None:
    folder = home / ".cline" / "data" / "sessions" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"session_id": name, "cwd": "/home/dev/boats"}))
    document = {"version": 1, "agent": "lead", "sessionId": name, "updated_at": "2026-05-28",
                "messages": messages}  # fmt: skip
    (folder / f"{name}.messages.json").write_text(json.dumps(document))


def totals(ledger: Ledger) -> int:
    found = ledger.database.execute("SELECT unread FROM files").fetchall()
    return sum(json.loads(row[0]).get("totals instead of calls", 0) for row in found)


def test_a_fork_of_clines_session_counts_its_own_calls_only(tmp_path: Path) -> None:
    history = [asked(1), answered(2, 500), asked(3), answered(4, 600)]
    write_session(tmp_path, "1780000000001_aaaaa", *history)
    write_session(tmp_path, "1780000000002_fork", *history, asked(5), answered(6, 700))
    write_session(tmp_path, "1780000000003_restored", *history[:2], asked(7), answered(8, 800))
    assert rows(read(tmp_path), "prompt", "session") == [
        (500, "1780000000001_aaaaa"), (600, "1780000000001_aaaaa"),
        (700, "1780000000002_fork"), (800, "1780000000003_restored"),
    ]  # fmt: skip


def test_the_sum_of_a_resumed_task_of_an_older_cline_is_no_call(tmp_path: Path) -> None:
    write_task(
        tmp_path / ".cline" / "data", "1770000000000",
        ui_messages=[
            request(1_770_000_001_000, "anthropic claude-sonnet-4-6", **counts(400, 9, 0, 0, 0.01)),
            request(1_770_000_002_000, "anthropic claude-sonnet-4-6", **counts(500, 9, 0, 0, 0.01)),
        ],
    )  # fmt: skip
    write_session(
        tmp_path, "1770000000000",
        asked(1), answered(2), asked(3), answered(4, 900, "unknown"), asked(5, WARNING),
        asked(6), answered(7, 1_000),
    )  # fmt: skip
    ledger = read(tmp_path)
    assert rows(ledger, "prompt") == [(400,), (500,), (1_000,)]
    assert totals(ledger) == 1


def test_answers_that_cline_copies_back_to_an_older_task_count_once(tmp_path: Path) -> None:
    model, old = "anthropic claude-sonnet-4-6", 1_770_000_001_000
    before = [said(old - 1), request(old, model, **counts(400, 9, 0, 0, 0.01))]
    write_session(tmp_path, "1770000000000", asked(1, WARNING), answered(2, 700), answered(3, 800))
    ledger = Ledger(":memory:")
    for moved in (0, 60_000):  # with each answer, all that are copied get other times
        started = 1_780_000_000_000 + moved
        copies = [
            said(started), request(started + 1, model, **counts(700, 9, 0, 0, 0.01)),
            request(started + 2, model, **counts(800, 9, 0, 0, 0.01)),
        ]  # fmt: skip
        later = request(started + 99_000, model, **counts(900, 9, 0, 0, 0.01))  # of the old Cline
        write_task(
            tmp_path / ".cline" / "data", "1770000000000",
            ui_messages=[*before, *copies, *([later] if moved else [])],
            sdk_writeback={"version": 1, "baseUiMessageCount": 2, "writtenUiMessageCount": 5},
        )  # fmt: skip
        read(tmp_path, ledger)
    assert rows(ledger, "prompt") == [(400,), (700,), (800,), (900,)]


def test_the_sum_of_a_run_of_clines_session_is_no_call(tmp_path: Path) -> None:
    write_session(
        tmp_path, "1780000000001_aaaaa",
        asked(1), answered(2), result(3), answered(4), result(5), answered(6, 2_000_000),
        asked(7), answered(8, 300),  # a run with one call
        asked(9), answered(10, 400), result(11), answered(12), result(13), answered(14, 500),
        asked(15), answered(16),  # stopped
        asked(17), answered(18, 600),
    )  # fmt: skip
    ledger = read(tmp_path)
    assert rows(ledger, "prompt") == [(300,), (400,), (500,), (600,)]
    assert totals(ledger) == 1


def test_what_roo_code_condensed_or_deleted_is_named(tmp_path: Path) -> None:
    cost = {"cost": 0.2, "summary": CANARY, "newContextTokens": 9}
    condensed = {**said(LATE), "say": "condense_context", "contextCondense": cost}
    deleted = {**request(LATE, **counts(9, 9, 0, 0, 0.1)), "say": "api_req_deleted"}
    write_task(tmp_path / EDITOR / KILO, ui_messages=[condensed, deleted])
    assert totals(read(tmp_path)) == 2


def test_models_are_found_in_prompts_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cline_tasks, "_BLOCK_BYTES", 1_024)
    model, history, calls = "claude-sonnet-4-20250514", list[dict[str, Any]](), []
    for place in range(40):  # each begins elsewhere in a block
        ts = LATE + place * 1_000
        named = prompt(ts, f"/home/dev/{'x' * place * 7}/boats", f"{model}-{place}")
        history += [named, answer(ts + 500)]
        calls.append(request(ts + 100, **counts(9, 9, 0, 0, 0.1)))
    path = write_task(tmp_path / EDITOR / ROO, ui_messages=calls, api_conversation_history=history)
    found = rows(read(tmp_path), "model", "project")
    assert found == [(f"{model}-{place}", "boats") for place in range(40)]
    monkeypatch.undo()
    os.truncate(path / "api_conversation_history.json", 65 << 20)  # without its bytes on disk
    assert len(cline_tasks.beside(path / "ui_messages.json")["models"]) == 40


def test_a_large_task_is_read_and_one_that_is_cut_off_is_named(tmp_path: Path) -> None:
    call = request(LATE, "anthropic claude-sonnet-4-6", **counts(9, 9, 0, 0, 0.1))
    path = write_task(tmp_path / EDITOR / CLINE, ui_messages=[]) / "ui_messages.json"
    image = json.dumps({**said(LATE), "images": ["x" * (11 << 20)]})
    path.write_text(f"[{image}, {image}, {image}, {json.dumps(call)}]")
    assert rows(read(tmp_path), "prompt") == [(9,)]
    path.write_text(f"[{json.dumps(call)}, {json.dumps(call)[:-20]}")
    ledger = read(tmp_path)
    assert rows(ledger, "prompt") == [(9,)]
    (unread,) = ledger.database.execute("SELECT unread FROM files").fetchone()
    assert json.loads(unread) == {"lines that aren't valid JSON": 1}


def test_plans_are_known_by_their_provider_or_by_a_cost_of_nothing(tmp_path: Path) -> None:
    plans = ["vscode-lm", "openai-codex", "qwen-code", "cline-pass", "github-copilot"]
    for place, provider in enumerate([*plans, "openrouter"]):
        call = request(LATE + place, f"{provider} gpt-5.4", **counts(9, 9, 0, 0, 0.1))
        write_task(tmp_path / EDITOR / CLINE, f"task-{place}", ui_messages=[call])
    spoken = [prompt(LATE, "/home/dev/boats", "claude-sonnet-4-20250514")]
    calls = [
        request(LATE + 90, **counts(9, 9, 0, 0, 0)),
        request(LATE + 91, **counts(9, 9, 0, 0, 1)),
    ]
    write_task(tmp_path / EDITOR / ROO, ui_messages=calls, api_conversation_history=spoken)
    found = [row[0] for row in rows(read(tmp_path), "is_metered")]
    assert found == [0] * len(plans) + [1, 0, 1]


def test_amps_events_have_the_cache_of_their_own_message_only(tmp_path: Path) -> None:
    opus, haiku = "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001"

    def event(second: int, model: str, given: int, output: int, **names: Any) -> dict[str, Any]:
        return {
            "timestamp": f"2026-09-21T14:15:{second:02}.100Z", "model": model, "credits": 0.1,
            "tokens": {"input": given, "output": output}, **names,
        }  # fmt: skip

    def reply(second: int, given: int, output: int, cached: int, **names: Any) -> dict[str, Any]:
        usage = {
            "inputTokens": given, "outputTokens": output, "cacheReadInputTokens": cached,
            "cacheCreationInputTokens": 0, "model": opus,
            "timestamp": f"2026-09-21T14:15:{second:02}.200Z",
        }  # fmt: skip
        return {"role": "assistant", "content": [CANARY], "usage": usage, **names}

    thread = {
        "id": "T-9",
        "v": 3,
        "messages": [
            reply(1, 10, 100, 1_000, messageId=0),
            reply(2, 20, 200, 2_000),  # without an ID
            reply(3, 30, 300, 3_000, messageId=4),
            reply(6, 60, 600, 6_000, messageId=6),  # of which no event has tokens
            *(reply(8, 20, 200, 2_000), reply(9, 20, 200, 2_000)),  # as large as the second
        ],
        "usageLedger": {
            "events": [
                event(0, haiku, 300, 12),  # a title
                event(1, opus, 10, 100, toMessageId=0),
                event(2, opus, 20, 200),
                event(4, haiku, 7, 70, toMessageId=4),  # of another model
                event(3, opus, 30, 300, toMessageId=4),
                event(5, opus, 5, 50, toMessageId=4),  # once more
                {"timestamp": "2026-09-21T14:15:06.100Z", "model": opus, "toMessageId": 6},
                *(event(7, opus, 20, 200), event(8, opus, 20, 200)),
            ]
        },
    }
    folder = tmp_path / ".local" / "share" / "amp" / "threads"
    folder.mkdir(parents=True)
    (folder / "T-9.json").write_text(json.dumps(thread))
    assert rows(read(tmp_path), "model", "prompt", "completion", "cached") == [
        (haiku, 300, 12, 0), (opus, 1_010, 100, 1_000), (opus, 2_020, 200, 2_000),
        (opus, 3_030, 300, 3_000), (haiku, 7, 70, 0), (opus, 5, 50, 0), (opus, 6_060, 600, 6_000),
        (opus, 2_020, 200, 2_000), (opus, 2_020, 200, 2_000),
    ]  # fmt: skip


def texts(folder: Path) -> Iterable[bytes]:
    return (path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_span_of_another_host_is_no_call_of_copilots_plan() -> None:
    usage = {"gen_ai.usage.input_tokens": 400, "gen_ai.usage.output_tokens": 20}
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1", **usage}
    hosts = [{}, {"gen_ai.provider.name": "github"}, {"gen_ai.provider.name": "openai"}]
    lines = [
        {"traceId": "t", "spanId": str(n), "endTime": [1775934264 + n, 0], "attributes": each}
        for n, each in enumerate(named | host for host in hosts)
    ]
    log = BytesIO("\n".join(map(json.dumps, lines)).encode())
    found = [each for chunk in read_chunks(log) for each in records_of(chunk.columns)]
    assert [each.provider for each in found] == ["copilot", "copilot", "openai"]


def test_no_text_of_any_file_is_kept(tmp_path: Path) -> None:
    corpus(tmp_path / "home")
    assert all(b"CANARY" in text for text in texts(tmp_path / "home"))
    (tmp_path / "kept").mkdir()
    ledger = read(tmp_path / "home", Ledger(tmp_path / "kept" / "ledger.db"))
    reading.price(ledger)
    assert ledger.database.execute("SELECT count(*) FROM calls WHERE usd > 0").fetchone() == (13,)
    ledger.close()
    scrubbed = tmp_path / "kept" / "usage.jsonl"
    result = CliRunner().invoke(library, ["scrub", str(tmp_path / "home"), "--out", str(scrubbed)])
    assert result.exit_code == 0, result.output
    assert "CANARY" not in result.output
    assert b"CANARY" not in b"".join(texts(tmp_path / "kept"))


@pytest.mark.parametrize("agent", ["cline", "roo-code", "amp"])
def test_scrub_reads_what_the_ledger_reads(agent: str, tmp_path: Path) -> None:
    corpus(tmp_path / "home")
    scrubbed = tmp_path / "usage.jsonl"
    result = CliRunner().invoke(library, ["scrub", str(tmp_path / "home"), "--out", str(scrubbed)])
    assert result.exit_code == 0, result.output
    records = [
        record
        for chunk in read_chunks(BytesIO(scrubbed.read_bytes()))
        for record in records_of(chunk.columns)
    ]
    found = {record.request_id: (record.model, record.prompt_tokens) for record in records}
    ledger = read(tmp_path / "home")
    query = "SELECT id, model, prompt FROM calls WHERE agent = ?"
    for name, model, tokens in ledger.database.execute(query, (agent,)):
        assert found[name] == (model, tokens)
