"""Rows of each source as it writes them, and the calls that they are.

A call is (model, prompt, completion, cached, written), followed by a service tier if it has one.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

CANARY: Final = "CANARY, which a customer said"
SECOND: Final = 1_790_000_000  # 2026-09-21T13:33:20Z
Call = tuple[Any, ...]


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def table(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> bytes:
    return "\r\n".join(delimiter.join(map(str, row)) for row in rows).encode() + b"\r\n"


LITELLM: Final[dict[str, Any]] = {
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "model": "gpt-4o",
    "custom_llm_provider": "openai",
    "prompt_tokens": 40,
    "completion_tokens": 12,
    "startTime": "2026-09-21T14:13:20.250Z",
    "endTime": "2026-09-21T14:13:21.500Z",
    "metadata": {"usage_object": {"prompt_tokens": 40, "completion_tokens": 12,
                                  "prompt_tokens_details": {"cached_tokens": 30}}},
    "cache_hit": "False",
    "messages": {},
    "response": {},
    "status": "success",
}  # fmt: skip
LANGFUSE: Final[dict[str, Any]] = {
    "id": "5d3f9b1c2a4e6f70",
    "type": "GENERATION",
    "name": "support",
    "startTime": "2026-09-21T14:13:20.250Z",
    "endTime": "2026-09-21T14:13:21.500Z",
    "model": "gpt-4o",
    "usageDetails": {"input": 10, "input_cached_tokens": 30, "output": 12, "total": 52},
}
BATCH: Final[dict[str, Any]] = {
    "id": "batch_req_1", "custom_id": "request-1", "error": None,
    "response": {"status_code": 200, "request_id": "req_1", "body": {
        "id": "chatcmpl-1", "object": "chat.completion", "created": SECOND, "model": "gpt-4o",
        "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52,
                  "prompt_tokens_details": {"cached_tokens": 30}}}},
}  # fmt: skip
SESSION: Final = "0b8f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b11"
FORKED: Final = "7c1f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b12"


def codex(kind: str, second: int = 20, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-09-21T14:13:{second}.000Z", "type": kind, "payload": payload}


def tokens(second: int, total: int, last: int) -> dict[str, Any]:
    def counts(prompt: int) -> dict[str, int]:
        return {"input_tokens": prompt, "cached_input_tokens": 30, "output_tokens": 12,
                "reasoning_output_tokens": 5, "total_tokens": prompt + 12}  # fmt: skip

    info = {"total_token_usage": counts(total), "last_token_usage": counts(last)}
    return codex("event_msg", second, type="token_count", info=info)


ROLLOUT: Final = (
    codex("session_meta", id=SESSION, cli_version="0.47.0"),
    codex("turn_context", model="gpt-5-codex"),
    tokens(21, 40, 40),
    tokens(25, 90, 50),
)


def opencode(name: str, session: str, created: int = SECOND * 1_000) -> dict[str, Any]:
    return {
        "id": name, "sessionID": session, "role": "assistant", "modelID": "claude-opus-4-6",
        "providerID": "anthropic", "time": {"created": created, "completed": created + 4_000},
        "tokens": {"input": 5, "output": 12, "reasoning": 0, "cache": {"read": 20, "write": 15}},
    }  # fmt: skip
