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


GEMINI: Final[dict[str, Any]] = {
    "ts": "2026-09-21T14:13:20Z",
    "modelVersion": "gemini-2.5-flash",
    "usageMetadata": {
        "promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 10,
        "thoughtsTokenCount": 20, "totalTokenCount": 130,
    },
}  # fmt: skip
BEDROCK: Final[dict[str, Any]] = {
    "schemaType": "ModelInvocationLog",
    "schemaVersion": "1.0",
    "timestamp": "2026-09-21T14:13:20Z",
    "accountId": "123456789012",
    "identity": {"arn": "arn:aws:sts::123456789012:assumed-role/app/session"},
    "region": "us-east-1",
    "requestId": "915a6a04-3f83-4c70-a277-7fbf7ea546b3",
    "operation": "Converse",
    "modelId": "anthropic.claude-3-haiku-20240307-v1:0",
    "input": {"inputContentType": "application/json", "inputTokenCount": 35,
              "cacheReadInputTokenCount": 60, "cacheWriteInputTokenCount": 5},
    "output": {"outputContentType": "application/json", "outputTokenCount": 446},
}  # fmt: skip
HAIKU: Final = ("anthropic.claude-3-haiku-20240307-v1:0", 100, 446, 60, 5)
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
GPT: Final = ("gpt-4o", 40, 12, 30, 0)
LANGFUSE: Final[dict[str, Any]] = {
    "id": "5d3f9b1c2a4e6f70",
    "type": "GENERATION",
    "name": "support",
    "startTime": "2026-09-21T14:13:20.250Z",
    "endTime": "2026-09-21T14:13:21.500Z",
    "model": "gpt-4o",
    "usageDetails": {"input": 10, "input_cached_tokens": 30, "output": 12, "total": 52},
}
ROUTED: Final = ("openai/gpt-4o", 40, 12, 30, 0)
BATCH: Final[dict[str, Any]] = {
    "id": "batch_req_1", "custom_id": "request-1", "error": None,
    "response": {"status_code": 200, "request_id": "req_1", "body": {
        "id": "chatcmpl-1", "object": "chat.completion", "created": SECOND, "model": "gpt-4o",
        "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52,
                  "prompt_tokens_details": {"cached_tokens": 30}}}},
}  # fmt: skip
MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6",
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 15,
              "output_tokens": 12},
}  # fmt: skip
OPUS: Final = ("claude-opus-4-6", 40, 12, 20, 15)
RESULT: Final[dict[str, Any]] = {
    "ts": "2026-09-21T14:13:20Z", "custom_id": "r-1",
    "result": {"type": "succeeded", "message": MESSAGE},
}  # fmt: skip
SESSION: Final = "0b8f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b11"
FORKED: Final = "7c1f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b12"


def claude(session: str, name: str, output: int = 12, second: int = 20) -> dict[str, Any]:
    usage = MESSAGE["usage"] | {"output_tokens": output}
    return {
        "type": "assistant", "sessionId": session, "timestamp": f"2026-09-21T14:13:{second}.250Z",
        "uuid": "f2b0b3a4-66c0-4b6e-8f0e-1f0e1c2d3b4a", "requestId": f"req_{name}",
        "message": MESSAGE | {"id": name, "usage": usage},
    }  # fmt: skip


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
CODEX: Final = ("gpt-5-codex", 40, 12, 30, 0)


def gemini_cli(name: str, prompt: int = 100) -> dict[str, Any]:
    counts = {"input": prompt, "output": 10, "cached": 64, "thoughts": 20, "tool": 0, "total": 130}
    return {"id": name, "timestamp": "2026-09-21T14:13:20.250Z", "type": "gemini",
            "model": "gemini-2.5-flash", "tokens": counts}  # fmt: skip


CHATS: Final = {"sessionId": SESSION, "projectHash": "a" * 64, "messages": [gemini_cli("m1")]}


def opencode(name: str, session: str, created: int = SECOND * 1_000) -> dict[str, Any]:
    return {
        "id": name, "sessionID": session, "role": "assistant", "modelID": "claude-opus-4-6",
        "providerID": "anthropic", "time": {"created": created, "completed": created + 4_000},
        "tokens": {"input": 5, "output": 12, "reasoning": 0, "cache": {"read": 20, "write": 15}},
    }  # fmt: skip


TEXT: Final = "may hold text"
SUMS: Final = "totals instead of calls"
