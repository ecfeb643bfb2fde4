"""A line that is read in one decode says what its adapter says, and is left to it otherwise."""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.agent_sessions import write_sessions
from detectors.agents import files
from detectors.agents.files import FileRead, Mark, read_file
from detectors.agents.folders import File, Source, find_files, find_sources
from detectors.formats.adapters.rows import Row
from tests.cases import data_of

TABLES = data_of(__file__)

_AT: Final = "2026-07-01T10:00:00.000Z"
_SESSION: Final = "0f5e2c1a-1111-4222-8333-444455556666"
_USAGE: Final = {
    "input_tokens": 3, "output_tokens": 40, "cache_creation_input_tokens": 500,
    "cache_read_input_tokens": 9_000,
}  # fmt: skip
_USAGES: Final[list[dict[str, Any]]] = TABLES["usages"]
_MESSAGES: Final[list[dict[str, Any]]] = TABLES["messages"]
_LINES: Final[list[dict[str, Any]]] = TABLES["lines"]


def _messages() -> Iterable[dict[str, Any]]:
    message = {"id": "msg_01", "model": "claude-opus-4-6", "type": "message", "usage": _USAGE}
    line = {
        "type": "assistant", "timestamp": _AT, "sessionId": _SESSION, "requestId": "req_01",
        "cwd": "/home/dev/boats", "isSidechain": False,
    }  # fmt: skip
    number = 0
    for usage, own, around in (
        *product(_USAGES, [{}], [{}]), *product([{}], _MESSAGES, [{}]),
        *product([{}], [{}], _LINES),
    ):  # fmt: skip
        for names in ({}, {"id": f"msg_{number}"}):
            number += 1
            inner = {**message, **names, "usage": {**_USAGE, **usage}, **own}
            yield {**line, "requestId": f"req_{number}", "message": inner, **around}


_TURN: Final = {
    "input_tokens": 900, "cached_input_tokens": 800, "output_tokens": 50,
    "reasoning_output_tokens": 20, "total_tokens": 950,
}  # fmt: skip
_TURNS: Final[list[dict[str, Any]]] = TABLES["turns"]
_WEEK: Final = {"used_percent": 12, "window_minutes": 10_080, "resets_at": 1_783_500_000}
_LIMITS: Final[list[Any]] = [
    None,
    {"primary": {"used_percent": 3.5, "window_minutes": 300, "resets_in_seconds": 60}},
    {"primary": None, "secondary": _WEEK, "plan_type": "plus", "credits": {"balance": "0"}},
    {"secondary": _WEEK, "plan_type": None},
    {"secondary": {**_WEEK, "resets_at": "2026-07-08T10:00:00Z"}, "plan_type": "a plan"},
    {"secondary": {**_WEEK, "used_percent": "most"}, "plan_type": "pro"},
    "none",
]
_SETTINGS: Final[list[dict[str, Any]]] = [
    {"model": "gpt-5.4", "service_tier": None},
    {"model": "gpt-5.4", "service_tier": "priority"},
    {"model": "gpt-5.4", "service_tier": "default"},
    {"model": "gpt-5.4", "service_tier": "scale"},
    {"model": "a model", "service_tier": None},
]


def _turns() -> Iterable[dict[str, Any]]:
    so_far = 0
    yield {
        "timestamp": _AT, "type": "session_meta",
        "payload": {"id": _SESSION, "cwd": "/home/dev/boats", "timestamp": _AT},
    }  # fmt: skip
    for settings, turn, limits in (
        *product(_SETTINGS, _TURNS[:1], [None]), *product(_SETTINGS[:1], _TURNS, _LIMITS),
    ):  # fmt: skip
        applied = {"type": "thread_settings_applied", "thread_settings": settings}
        yield {"timestamp": _AT, "type": "event_msg", "payload": applied}
        so_far += 1_000
        total = {**_TURN, "input_tokens": so_far}
        infos: list[Any] = [
            {"total_token_usage": total, "last_token_usage": {**_TURN, **turn}},
            {"total_token_usage": total, "model_context_window": 272_000},
            {"total_token_usage": None, "last_token_usage": _TURN},
            None,
        ]
        for info in infos[: 1 if settings is not _SETTINGS[0] else None]:
            payload = {"type": "token_count", "info": info, "rate_limits": limits}
            yield {"timestamp": _AT, "type": "event_msg", "payload": payload}


def _file(path: Path, agent: str, lines: Iterable[dict[str, Any]]) -> File:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    source = Source(agent, path.parent, agent.replace("-", "_"))
    return File(str(path), source, path.stat().st_size, 0, 0)


def _said(read: FileRead) -> tuple[Any, ...]:
    # A message that is logged again with the same counts is one of which the first is enough.
    copies = {copy[:3] + copy[4:7]: (copy[3], copy[9]) for copy in reversed(read.copies)}
    said = (read.sessions, read.ends.keys(), read.limits, read.unread, read.mark, read.problem)
    return copies, *said


def _read_both(
    found: Iterable[File], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[FileRead, FileRead]]:
    found = list(found)
    usual = [read_file(file, Mark()) for file in found]
    for name in ("read_message", "read_turn"):
        monkeypatch.setattr(files, name, lambda *_: None)
    return list(zip(usual, (read_file(file, Mark()) for file in found), strict=True))


def test_every_form_of_a_line_reads_as_its_adapter_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [("claude-code", line) for line in _messages()]
    one_each = [
        _file(tmp_path / f"{number}.jsonl", agent, [line])
        for number, (agent, line) in enumerate(forms)
    ]
    turns = _file(tmp_path / "turns.jsonl", "codex", _turns())
    for ours, theirs in _read_both([*one_each, turns], monkeypatch):
        assert _said(ours) == _said(theirs), Path(ours.file.path).read_text()[:2_000]


def test_sessions_read_as_their_adapters_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sessions(tmp_path, 12, 0)
    found = [file for source in find_sources({}, tmp_path) for file in find_files(source, [])]
    both = _read_both(found, monkeypatch)
    assert sum(len(ours.copies) for ours, _ in both) > 400
    for ours, theirs in both:
        assert _said(ours) == _said(theirs)


def test_usual_lines_are_not_left_to_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sessions(tmp_path, 12, 0)
    asked: list[bytes] = []
    decode = Row.decode

    def note(line: bytes) -> Row:
        asked.append(line)
        return decode(line)

    monkeypatch.setattr(Row, "decode", note)
    for source in find_sources({}, tmp_path):
        for file in find_files(source, []):
            read_file(file, Mark())
    counting = [line for line in asked if b'"usage"' in line or b'"token_count"' in line]
    odd = (b'"iterations"', b'"<synthetic>"')
    assert counting
    assert all(any(sign in line for sign in odd) for line in counting)
