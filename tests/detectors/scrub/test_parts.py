"""What a raw log says besides its counts: the fields of a record's second version."""

import json
from io import BytesIO
from typing import Any, Final

from detectors.formats import read_chunks
from detectors.formats.columns import OPTIONAL_COLUMNS
from detectors.scrub.scrubber import Scrubber

CHAT: Final[dict[str, Any]] = {
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "m",
    "choices": [{"message": {"content": "CANARY"}}],
}


def scrub(document: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the call, after the line was written and read."""
    written = b"".join(Scrubber().read(BytesIO(json.dumps(document).encode())))
    assert b"CANARY" not in written
    [chunk] = read_chunks(BytesIO(written))
    assert not chunk.invalid
    return {name: column[0] for name, column in chunk.columns.items()}


def optional(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: columns[name] for name in OPTIONAL_COLUMNS if name in columns}


def test_deepseeks_cache_hits_and_xais_reasoning_are_kept() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50}
    hits = {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}
    assert scrub(CHAT | {"usage": usage | hits})["cached_tokens"] == 64
    apart = {"total_tokens": 350, "completion_tokens_details": {"reasoning_tokens": 200}}
    found = scrub(CHAT | {"usage": usage | apart})
    assert (found["completion_tokens"], found["reasoning_tokens"]) == (250, 200)
    within = {"total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 20}}
    found = scrub(CHAT | {"usage": usage | within})
    assert (found["completion_tokens"], found["reasoning_tokens"]) == (50, 20)


def test_parts_of_both_totals_and_labels_are_kept() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"audio_tokens": 90, "image_tokens": 20},
        "completion_tokens_details": {"audio_tokens": 5, "image_tokens": 4},
    }
    found = scrub(CHAT | {"usage": usage, "environment": "production", "tag": "bot"})
    assert optional(found) == {
        "audio_prompt_tokens": 90,
        "image_prompt_tokens": 10,
        "audio_completion_tokens": 5,
        "image_completion_tokens": 4,
        "environment": "production",
    }
    assert found["tag"] == "bot"
    assert scrub(CHAT | {"usage": usage, "environment": "production"})["tag"] == ""


def test_lifetimes_searches_thinking_a_region_and_a_session_are_kept() -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 50,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        "server_tool_use": {"web_search_requests": 3},
        "output_tokens_details": {"thinking_tokens": 40},
        "inference_geo": "us",
    }
    session = "0b9fa5a3-a2c1-4d5c-b7f3-c1c1f7a9e6d2"
    line = {
        "type": "assistant",
        "timestamp": "2026-01-01T00:00:00Z",
        "sessionId": session,
        "message": {"id": "msg_1", "type": "message", "model": "claude-opus-4-8", "usage": usage},
    }
    assert optional(scrub(line)) == {
        "cache_write_1h_tokens": 20,
        "reasoning_tokens": 40,
        "web_searches": 3,
        "session_id": session,
        "region": "us",
    }


def test_an_odd_session_is_replaced_by_a_hash() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    line = {
        "timestamp": "2026-01-01T00:00:00Z",
        "sessionId": "CANARY the customer",
        "message": {"id": "msg_1", "type": "message", "model": "claude-opus-4-8", "usage": usage},
    }
    assert scrub(line)["session_id"].startswith("id-")


def test_values_of_other_types_do_no_harm() -> None:
    usage: dict[str, Any] = {"prompt_tokens": 1, "completion_tokens": 1}
    names = ("completion_tokens_details", "server_tool_use", "cache_creation", "inference_geo")
    for odd in ("CANARY", ["CANARY"], {"a CANARY": 1}, 1.5, -1, None):
        inner = {"reasoning_tokens": odd, "audio_tokens": odd, "image_tokens": odd}
        for value in (odd, inner):
            document = CHAT | {"usage": usage | dict.fromkeys(names, value)}
            assert optional(scrub(document)).keys() <= {"unknown_fields", "unknown_largest"}
