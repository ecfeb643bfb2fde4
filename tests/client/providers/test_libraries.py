"""Gemini, Mistral and Cohere through their own libraries: every style of call counts once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.client.environments import LOCKS, environment_python, run
from tests.client.matrix import ABSENT, CAPTURED
from tests.client.provider_stub import CANARY
from tests.client.providers.answers import CHAT_ID, COHERE_ID, RESPONSE_ID
from tests.client.providers.styles import STYLES
from tests.worker.support.promises import Note

NEWEST: Final = LOCKS / "others" / "further.lock"
OLDER: Final = LOCKS / "others" / "older-providers.lock"
IDS: Final = {"google content": RESPONSE_ID, "mistral chat": CHAT_ID, "cohere": COHERE_ID}
LABELS: Final = {
    "google content": "generateContent",
    "google chat": "generateContent",
    "google interactions": "interactions",
    "mistral chat": "chat/completions",
    "mistral conversations": "conversations",
    "cohere chat": "chat",
    "cohere 2 chat": "chat",
}
# What that version's own objects leave out, or calls in another way.
MISSING: Final = ("google embeddings", "google interactions")


def _run(lock: Path, *arguments: str) -> dict[str, Any]:
    python = environment_python(lock)
    printed = run(python, "-W", "ignore", "-m", "tests.client.providers.matrix", *arguments)
    found: dict[str, Any] = json.loads(printed)
    assert (found["faults"], found["imported"]) == (0, [])
    assert CANARY not in json.dumps(found)
    return found


def _wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reasons = {style.name: style.uncaptured for style in STYLES}
    return [row for row in rows if row["verdict"] not in (CAPTURED, reasons[row["name"]])]


@pytest.mark.stress
def test_every_style_of_the_newest_libraries_counts_once_and_is_labeled() -> None:
    """By default, `test_hooks.py` has objects that look like theirs."""
    found = _run(NEWEST)
    assert _wrong(found["rows"]) == []
    # Calls of other endpoints are named, and none of them is billed by tokens.
    assert found["uncaptured"] == {"countTokens": 2, "moderations": 1}
    assert found["without_usage"] == 0
    for row in found["rows"]:
        for record in row["records"]:
            _check_labels(row["name"], record)


def _check_labels(style: str, record: dict[str, Any]) -> None:
    assert record["provider"] == style.partition(" ")[0]
    is_batch = "batch" in style  # whose answers have no latency, and come without their requests
    assert is_batch == ("latency_ms" not in record)
    is_left = style.endswith(", left")
    assert record.get("status") == ("cancelled" if is_left else None)
    for beginning, label in LABELS.items():
        if style.startswith(beginning):
            assert record["endpoint"] == label
    for beginning, request_id in IDS.items():
        if style.startswith(beginning):
            assert record["request_id"] == request_id
    unlimited = ("embeddings", "conversations", "interactions", "rerank", "batch")
    has_limit = not any(word in style for word in unlimited)
    assert record.get("declared_max_tokens") == (64 if has_limit else None)
    if "content" in style or style.startswith(("mistral chat", "cohere 2 chat")):
        assert len(record["prefix_hash"]) == 64
    if style == "google content with tools":
        assert record["reasoning_tokens"] == 31
    if "conversations" in style:
        assert record["web_searches"] == 1


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("lock", "order"), [(NEWEST, "before"), (OLDER, ""), (OLDER, "before")])
def test_other_versions_and_earlier_clients_are_captured(
    lock: Path, order: str, note: Note
) -> None:
    """Clients that are made before `init()` are hooked, too."""
    found = _run(lock, order)
    missing = MISSING if lock == OLDER else ()
    wrong = [row for row in _wrong(found["rows"]) if not row["name"].startswith(missing or ("-",))]
    assert [row for row in wrong if not row["verdict"].startswith(ABSENT)] == []
    note(f"call styles of {lock.stem} {order}", len(found["rows"]), len(wrong))
