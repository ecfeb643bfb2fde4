"""The matrix: every call style, in the newest and in older libraries, with the right counts."""

import importlib
import inspect
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.client.environments import LOCKS, environment_python, interpreters, run
from tests.client.matrix import ABSENT, CAPTURED
from tests.client.styles import STYLES
from tests.lazily import anthropic, openai
from tests.worker.support.promises import Note

ON_EVERY_PYTHON: Final = ("openai-1.109", "anthropic-0.60")
UNLIMITED: Final = ("embeddings", "images", "background")
BARS: Final = {"openai": (33, 32), "anthropic": (26, 26)}
OLDER: Final = sorted(path for library in BARS for path in LOCKS.glob(f"{library}-*.lock"))
# Public methods of the same classes that make no call which tokens are billed for, or that answer
# with an object of another call, and where a call cannot be seen, why not.
NO_CALLS: Final = {
    *("retrieve", "list", "update", "delete", "messages", "input_items", "input_tokens"),
    *("with_raw_response", "with_streaming_response", "count_tokens", "batches", "with_options"),
}
OTHERWISE: Final = {
    "cancel": "of a background response: test_records",
    "compact": "a POST like create",
    "thread": "a conversation, made of calls of `create` and `stream`",
    "connect": "a websocket, on which no request is made; `record()` is for it",
}


def _rows(python: str, library: str) -> list[dict[str, Any]]:
    found = json.loads(run(python, "-W", "ignore", "-m", "tests.client.matrix", library))
    assert found["faults"] == 0
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def _check(rows: list[dict[str, Any]], library: str) -> int:
    counted = [row for row in rows if not row["is_further"]]
    styles, least = BARS[library]
    captured: int = sum(row["verdict"] == CAPTURED for row in counted)
    assert len(counted) == styles
    assert captured >= least, [row for row in counted if row["verdict"] != CAPTURED]
    reasons = {style.name: style.uncaptured for style in STYLES}
    for row in rows:
        known = row["verdict"] in (CAPTURED, reasons[row["name"]])
        assert known or (row["is_further"] and row["verdict"].startswith(ABSENT)), row
    return captured


@pytest.mark.parametrize("library", BARS)
def test_the_newest_library_is_captured_in_every_style_and_labeled(library: str) -> None:
    rows = _rows(sys.executable, library)
    _check(rows, library)
    for row in rows:
        for record in row["records"]:
            _check_labels(row["name"], record)


def _check_labels(style: str, record: dict[str, Any]) -> None:
    assert record["endpoint"]
    # An answer's own ID, or its header's.
    assert record["request_id"].startswith(("chatcmpl-", "cmpl-", "resp_", "msg_", "req_"))
    assert record["latency_ms"] > 0
    no_limit = any(word in style for word in UNLIMITED)
    assert record.get("declared_max_tokens") == (None if no_limit else 64)
    assert record["provider"] == _provider(style)


def _provider(name: str) -> str:
    words = {"azure": "azure", "bedrock": "aws", "vertex": "google"}
    return next((words[word] for word in name.split() if word in words), name.split()[0])


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lock", OLDER, ids=lambda lock: lock.stem)
def test_older_libraries_are_captured_in_every_style(lock: Path, note: Note) -> None:
    library = lock.stem.partition("-")[0]
    captured = _check(_rows(environment_python(lock), library), library)
    styles, least = BARS[library]
    note(f"call styles of {lock.stem}", styles, max(0, least - captured))


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ON_EVERY_PYTHON)
@pytest.mark.parametrize("version", interpreters())
def test_every_interpreter_captures_every_style(version: str, name: str, note: Note) -> None:
    library = name.partition("-")[0]
    python = environment_python(LOCKS / f"{name}.lock", interpreters()[version])
    captured = _check(_rows(python, library), library)
    note(
        f"call styles of {name} on Python {version}", BARS[library][0], BARS[library][1] - captured
    )


def test_every_public_method_that_makes_calls_is_a_style() -> None:
    resources = {
        "chat": openai.resources.chat.Completions,
        "completions": openai.resources.Completions,
        # Newer versions import this part when it is first used, and not as an attribute.
        "responses": importlib.import_module("openai.resources.responses").Responses,
        "embeddings": openai.resources.Embeddings,
        "messages": anthropic.resources.messages.Messages,
        "beta.messages": anthropic.resources.beta.messages.Messages,
    }
    names = " ".join(style.name for style in STYLES)
    for prefix, resource in resources.items():
        for method, _ in inspect.getmembers(resource):
            if method.startswith("_") or method in NO_CALLS or method in OTHERWISE:
                continue
            assert f"{prefix}.{method}" in names or f" {method}" in names, (prefix, method)


def test_no_style_is_there_twice() -> None:
    assert max(Counter(style.name for style in STYLES).values()) == 1
