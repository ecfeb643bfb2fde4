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
