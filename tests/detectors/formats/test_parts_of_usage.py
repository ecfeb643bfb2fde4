"""Parts of the counts in the usage of model providers: the fields of a record's second version."""

import json
from io import BytesIO
from typing import Any, Final

from detectors.formats import read_chunks
from detectors.formats.columns import OPTIONAL_COLUMNS
from tests.cases import each_case

CHAT: Final[dict[str, Any]] = {"object": "chat.completion", "created": 1_767_225_600, "model": "m"}
MESSAGE: Final[dict[str, Any]] = {
    "type": "message",
    "ts": "2026-01-01T00:00:00Z",
    "model": "claude-sonnet-4-5",
}
LABELS: Final[dict[str, Any]] = {
    "web_searches": 2,
    "prefix_hash_16k": "a" * 64,
    "prefix_hash_64k": "b" * 64,
    "environment": "staging",
    "session_id": "chat-7",
    "status": "error",
    "region": "eu",
}


def columns_of(*lines: dict[str, Any]) -> dict[str, list[Any]]:
    [chunk] = read_chunks(BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert not chunk.invalid
    return chunk.columns


def chat(**usage: Any) -> dict[str, Any]:
    return CHAT | {"usage": {"prompt_tokens": 100, "completion_tokens": 50} | usage}


def message(**usage: Any) -> dict[str, Any]:
    return MESSAGE | {"usage": {"input_tokens": 100, "output_tokens": 50} | usage}


def wrapped(line: dict[str, Any]) -> dict[str, Any]:
    labels = {name: value for name, value in line.items() if name in {"ts", *LABELS}}
    return {"response": {n: v for n, v in line.items() if n not in labels}} | labels


def optional(line: dict[str, Any]) -> dict[str, Any]:
    for columns in (columns_of(line), columns_of(wrapped(line))):
        found: dict[str, Any] = {
            name: columns[name][0] for name in OPTIONAL_COLUMNS if name in columns
        }
    return found


@each_case("name", ["global", "not_available", "", None])
def test_processing_anywhere_is_no_region(name: str | None) -> None:
    assert optional(message(inference_geo=name)) == {}


def test_zeros_make_no_column_and_parts_are_at_most_their_total() -> None:
    line = message(
        cache_creation={"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        server_tool_use={"web_search_requests": 0, "web_fetch_requests": 0},
    )
    assert optional(line) == {}
    assert optional(chat(completion_tokens_details={"reasoning_tokens": 0})) == {}
    # One hour writes are at most all writes.
    line = message(cache_creation_input_tokens=30, cache_creation={"ephemeral_1h_input_tokens": 70})
    assert optional(line) == {"cache_write_1h_tokens": 30}


@each_case(
    ("total", "reasoning", "completion"),
    [
        (350, 200, 250),  # xAI: the total says that reasoning is apart
        (170, 20, 70),
        (150, 20, 50),  # OpenAI: the answer includes it
        (None, 200, 250),  # more than the answer can include
        (None, 20, 50),
        (999, 20, 50),
    ],
)
def test_reasoning_apart_from_the_answer_is_added(
    total: int | None, reasoning: int, completion: int
) -> None:
    line = chat(total_tokens=total, completion_tokens_details={"reasoning_tokens": reasoning})
    columns = columns_of(line, chat())
    assert columns["completion_tokens"] == [completion, 50]
    assert columns["reasoning_tokens"] == [reasoning, 0]


def test_a_part_that_cannot_be_is_cut_to_its_total() -> None:
    line = chat(
        total_tokens=150,
        prompt_tokens_details={"audio_tokens": 80, "image_tokens": 70},
        completion_tokens_details={"reasoning_tokens": 60},
    )
    assert optional(line) == {
        "audio_prompt_tokens": 80,
        "image_prompt_tokens": 20,
        "reasoning_tokens": 50,
    }


@each_case("line", [chat(), message()])
def test_lines_may_have_our_own_labels(line: dict[str, Any]) -> None:
    assert optional(line | LABELS) == LABELS


def test_our_own_label_comes_before_the_providers() -> None:
    usage = {"server_tool_use": {"web_search_requests": 3}, "inference_geo": "us"}
    columns = columns_of(message(**usage) | LABELS, message(**usage))
    assert columns["web_searches"] == [2, 3]
    assert columns["region"] == ["eu", "us"]
