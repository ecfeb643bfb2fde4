"""Raw logs of every shape that `scrub` reads, with text in them, as the tools write them."""

import json
import re
from typing import Any, Final

SYSTEM: Final = "You answer the questions of customers who have bought a boat."
QUESTION: Final = "Where do I find the anchor?"
ANSWER: Final = "In the locker at the bow, under the line."
CREATED: Final = 1_790_000_000
TIME: Final = "2026-09-21T14:13:20.250Z"
SESSION: Final = "0b8f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b11"

CHAT_REQUEST: Final[dict[str, Any]] = {
    "model": "gpt-5.4",
    "max_completion_tokens": 512,
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ],
    "tools": [{"type": "function", "function": {"name": "look_up", "description": SYSTEM}}],
}
CHAT: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": CREATED,
    "model": "gpt-5.4",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": ANSWER, "refusal": None},
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 40,
        "completion_tokens": 12,
        "total_tokens": 52,
        "prompt_tokens_details": {"cached_tokens": 30, "audio_tokens": 0},
    },
    "service_tier": "flex",
    "system_fingerprint": "fp_1",
}
RESPONSE_REQUEST: Final[dict[str, Any]] = {
    "model": "gpt-5.4",
    "instructions": SYSTEM,
    "input": [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}],
    "max_output_tokens": 512,
}
RESPONSE: Final[dict[str, Any]] = {
    "id": "resp_1",
    "object": "response",
    "created_at": CREATED,
    "model": "gpt-5.4",
    "instructions": SYSTEM,
    "output": [{"type": "message", "content": [{"type": "output_text", "text": ANSWER}]}],
    "max_output_tokens": 512,
    "usage": {
        "input_tokens": 40,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 52,
    },
}
EMBEDDING: Final[dict[str, Any]] = {
    "object": "list",
    "model": "text-embedding-3-small",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}],
    "usage": {"prompt_tokens": 40, "total_tokens": 40},
}
MESSAGE_REQUEST: Final[dict[str, Any]] = {
    "model": "claude-opus-4-8",
    "max_tokens": 512,
    "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": QUESTION}],
}
MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [{"type": "text", "text": ANSWER}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5,
        "cache_creation_input_tokens": 15,
        "cache_read_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 12,
        "service_tier": "standard",
    },
}
CHAT_PAIR: Final = {"request": CHAT_REQUEST, "response": CHAT, "tag": "support", "latency_ms": 250}
RESPONSE_PAIR: Final = {"request": RESPONSE_REQUEST, "response": RESPONSE, "endpoint": "/v1/ask"}
MESSAGE_PAIR: Final = {"ts": TIME, "request": MESSAGE_REQUEST, "response": MESSAGE}
EMBEDDING_PAIR: Final = {
    "created": CREATED,
    "request": {"model": "text-embedding-3-small", "input": [QUESTION, ANSWER]},
    "response": EMBEDDING,
}
BATCH: Final = {
    "id": "batch_req_1",
    "custom_id": "a question about an anchor",
    "response": {"status_code": 200, "request_id": "req_1", "body": CHAT},
    "error": None,
}
ANTHROPIC_BATCH: Final = {
    "ts": TIME,
    "custom_id": "a question about an anchor",
    "result": {"type": "succeeded", "message": MESSAGE},
}
CLAUDE_CODE_QUESTION: Final = {
    "type": "user",
    "timestamp": TIME,
    "sessionId": SESSION,
    "cwd": "/srv/boats",
    "gitBranch": "main",
    "message": {"role": "user", "content": QUESTION},
}
CLAUDE_CODE: Final[dict[str, Any]] = {
    "type": "assistant",
    "timestamp": TIME,
    "sessionId": SESSION,
    "uuid": "f2b0b3a4-66c0-4b6e-8f0e-1f0e1c2d3b4a",
    "parentUuid": None,
    "isSidechain": False,
    "cwd": "/srv/boats",
    "requestId": "req_1",
    "message": MESSAGE,
}
LITELLM: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "trace_id": "trace",
    "call_type": "acompletion",
    "stream": False,
    "status": "success",
    "custom_llm_provider": "anthropic",
    "model": "anthropic/claude-opus-4-8",
    "prompt_tokens": 40,
    "completion_tokens": 12,
    "total_tokens": 52,
    "startTime": CREATED + 0.25,
    "endTime": CREATED + 1.5,
    "completionStartTime": CREATED + 0.5,
    "metadata": {
        "user_api_key_alias": "someone's key",
        "usage_object": {
            "prompt_tokens": 40,
            "completion_tokens": 12,
            "total_tokens": 52,
            "prompt_tokens_details": {"cached_tokens": 20},
            "cache_read_input_tokens": 20,
            "cache_creation_input_tokens": 15,
        },
    },
    "cache_hit": None,
    "request_tags": ["User-Agent: someone", "support"],
    "messages": CHAT_REQUEST["messages"],
    "response": {"choices": CHAT["choices"], "model": "claude-opus-4-8"},
    "model_parameters": {"max_tokens": 512, "user": "someone"},
}
SPEND_LOG: Final[dict[str, Any]] = {
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "api_key": "a hash",
    "model": "gpt-5.4",
    "custom_llm_provider": "openai",
    "prompt_tokens": 40,
    "completion_tokens": 12,
    "startTime": "2026-09-21 14:13:20.250000",
    "endTime": "2026-09-21 14:13:21.500000",
    "metadata": json.dumps(LITELLM["metadata"]),
    "cache_hit": "False",
    "request_tags": json.dumps(LITELLM["request_tags"]),
    "messages": {},
    "response": json.dumps(CHAT),
    "proxy_server_request": json.dumps(CHAT_REQUEST),
}
LANGFUSE: Final[dict[str, Any]] = {
    "id": "5d3f9b1c2a4e6f70",
    "traceId": "a trace",
    "type": "GENERATION",
    "name": "support",
    "startTime": TIME,
    "endTime": "2026-09-21T14:13:21.500Z",
    "model": "claude-opus-4-8",
    "modelParameters": {"max_tokens": 512, "temperature": 1},
    "input": CHAT_REQUEST["messages"],
    "output": {"role": "assistant", "content": ANSWER},
    "metadata": {"note": ANSWER},
    "usageDetails": {
        "input": 5,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 15,
        "output": 12,
        "total": 52,
    },
    "costDetails": {"total": 0.1},
}
LANGFUSE_CACHED: Final = LANGFUSE | {
    "id": "6d3f9b1c2a4e6f70",
    "model": "gpt-5.4",
    "input": json.dumps({"messages": CHAT_REQUEST["messages"]}),
    "usageDetails": {
        "input": 10,
        "input_cached_tokens": 30,
        "output": 9,
        "output_reasoning_tokens": 3,
        "total": 52,
    },
}
LANGFUSE_OLD: Final = {key: value for key, value in LANGFUSE.items() if key != "usageDetails"} | {
    "usage": {"input": 40, "output": 12, "total": 52, "unit": "TOKENS"},
    "promptTokens": 40,
    "completionTokens": 12,
}
RAW: Final[dict[str, dict[str, Any]]] = {
    "chat pair": CHAT_PAIR,
    "response pair": RESPONSE_PAIR,
    "message pair": MESSAGE_PAIR,
    "embedding pair": EMBEDDING_PAIR,
    "flat chat": CHAT | {"messages": CHAT_REQUEST["messages"], "tag": "support"},
    "flat response": RESPONSE,
    "batch": BATCH,
    "anthropic batch": ANTHROPIC_BATCH,
    "claude code": CLAUDE_CODE,
    "litellm": LITELLM,
    "litellm spend log": SPEND_LOG,
    "langfuse": LANGFUSE,
    "langfuse, cached": LANGFUSE_CACHED,
    "langfuse, old": LANGFUSE_OLD,
}


def apart(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each document an ID of its own, in every place that has one."""
    ids = re.compile(r"\b(chatcmpl-|resp_|msg_|batch_req_|req_)1\b|\b(5d3f9b1c)(?=2a4e6f70)")
    found = list[dict[str, Any]]()
    for number, document in enumerate(documents):
        named = ids.sub(rf"\g<1>\g<2>{number}x", json.dumps(document))
        found.append(json.loads(named))
    return found
