"""What Gemini, Mistral and Cohere answer on the wire, with the counts of their own documentation.

* Gemini: https://ai.google.dev/gemini-api/docs/caching (696,219 tokens, most of them cached) and
  https://ai.google.dev/gemini-api/docs/url-context (27 tokens, and 10,309 that a tool found)
* Mistral: https://docs.mistral.ai/api/ (16 and 34 tokens; embeddings of 15), with the cached tokens
  of https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching, and
  https://docs.mistral.ai/agents/connectors/websearch (7,112 tokens that a connector found)
* Cohere: https://docs.cohere.com/v2/reference/chat (5 and 418 billed, 71 and 418 in all) and its
  neighbors for `embed` and `rerank`; version 1 bills the same

Every text holds `CANARY`. Plain Python of any version that the client runs on.
"""

from __future__ import annotations

from typing import Any

from tests.client.provider_stub import CANARY, TEXT

Json = dict[str, Any]
# The whole answer, or the events of a stream and how they are written.
Reply = tuple["Json | None", list[Json], str]
EVENTS, LINES = "text/event-stream", "application/stream+json"

CACHED_USAGE: Json = {
    "promptTokenCount": 696_219,
    "cachedContentTokenCount": 696_190,
    "candidatesTokenCount": 214,
    "totalTokenCount": 696_433,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 696_219}],
    "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 696_190}],
}
TOOL_USAGE: Json = {
    "promptTokenCount": 27,
    "candidatesTokenCount": 45,
    "thoughtsTokenCount": 31,
    "toolUsePromptTokenCount": 10_309,
    "totalTokenCount": 10_412,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 27}],
    "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 10_309}],
}
CACHED_COUNTS = (696_219, 214, 696_190, None)
TOOL_COUNTS = (27 + 10_309, 45 + 31, None, None)
CHAT_USAGE: Json = {
    "prompt_tokens": 16,
    "completion_tokens": 34,
    "total_tokens": 50,
    "prompt_tokens_details": {"cached_tokens": 8},
}
CHAT_COUNTS = (16, 34, 8, None)
CONNECTOR_USAGE: Json = {
    "prompt_tokens": 188,
    "completion_tokens": 55,
    "total_tokens": 7_355,
    "connector_tokens": 7_112,
    "connectors": {"web_search": 1},
}
CONNECTOR_COUNTS = (188 + 7_112, 55, None, None)
INTERACTION_USAGE: Json = {
    "total_input_tokens": 7,
    "total_cached_tokens": 0,
    "total_output_tokens": 20,
    "total_thought_tokens": 22,
    "total_tool_use_tokens": 0,
    "total_tokens": 49,
}
INTERACTION_COUNTS = (7, 42, 0, None)
BILLED: Json = {
    "billed_units": {"input_tokens": 5, "output_tokens": 418},
    "tokens": {"input_tokens": 71, "output_tokens": 418},
}
BILLED_COUNTS = (5, 418, None, None)
CHAT_ID, RESPONSE_ID = "cmpl-e5cc70bb28c444948073e77776eb30ef", "mAitaLmkHPPlz7IPvtfUqQ4"
COHERE_ID = "c14c80c3-18eb-4519-9460-6c92edd8cfb4"


def reply(path: str, body: Json) -> Reply | None:
    """Return what is answered to a POST; None if there is no such path."""
    library, _, rest = path.lstrip("/").partition("/")
    answer = {"google": _gemini, "mistral": _mistral, "cohere": _cohere}.get(library)
    return None if answer is None else answer(rest, body)


def _gemini(path: str, body: Json) -> Reply | None:
    action = path.rpartition(":")[2]
    usage = TOOL_USAGE if body.get("tools") else CACHED_USAGE
    if action == "generateContent":
        return content(usage, "STOP"), [], ""
    if action == "streamGenerateContent":
        begun = {"promptTokenCount": usage["promptTokenCount"], "totalTokenCount": 0}
        return None, [content({**begun, "totalTokenCount": usage["promptTokenCount"]}, None),
                      content(usage, "STOP")], EVENTS  # fmt: skip
    if action in ("batchEmbedContents", "embedContent"):
        vector = {"values": [0.25, -0.5]}
        return {"embeddings": [vector], "embedding": vector,
                "usageMetadata": {"promptTokenCount": 9}}, [], ""  # fmt: skip
    if action == "predict":
        statistics = {"token_count": 6, "truncated": False}
        embedded = {"embeddings": {"values": [0.25, -0.5], "statistics": statistics}}
        return {"predictions": [embedded] * len(body["instances"])}, [], ""
    if action == "countTokens":
        return {"totalTokens": 9}, [], ""
    if path.endswith("interactions"):
        return _interaction(body)
    return None


def job(name: str) -> Json:
    """Return a finished batch of Gemini's, of two answers."""
    answers = [{"response": content(CACHED_USAGE, "STOP")}] * 2
    about = {"state": "BATCH_STATE_SUCCEEDED", "model": "models/gemini-2.5-flash"}
    ended = {"endTime": "2026-11-20T10:30:00.250Z"}
    output = {"output": {"inlinedResponses": {"inlinedResponses": answers}}}
    return {"name": f"batches/{name}", "metadata": {**about, **ended, **output}}


def content(usage: Json, reason: str | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": [{"text": TEXT}]}, "index": 0}
    return {
        "candidates": [candidate if reason is None else {**candidate, "finishReason": reason}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": RESPONSE_ID,
    }


def _interaction(body: Json) -> Reply:
    whole = {
        "id": "v1_ChdPU0F4YWFtNkFwS2kxZThQZ05lbXdROBIX",
        "object": "interaction",
        "model": "gemini-2.5-flash",
        "status": "completed",
        "created": "2026-09-21T14:13:20Z",
        "updated": "2026-09-21T14:13:21Z",
        "steps": [],
        "usage": INTERACTION_USAGE,
    }
    if not body.get("stream"):
        return whole, [], ""
    begun = {"id": whole["id"], "status": "in_progress"}
    return None, [{"event_type": "interaction.start", "interaction": begun},
                  {"event_type": "interaction.complete", "interaction": whole}], EVENTS  # fmt: skip


def _mistral(path: str, body: Json) -> Reply | None:
    if "conversations" in path:
        return _conversation(path, body)
    if path.endswith("completions"):
        is_stream = body.get("stream")
        return (None, chunks(), EVENTS) if is_stream else (completion(), [], "")
    if path.endswith("embeddings"):
        usage = {"prompt_tokens": 15, "completion_tokens": 0, "total_tokens": 15}
        numbers = [0.015625] * (20_000 if "many" in str(body["input"]) else 2)
        data = [{"object": "embedding", "embedding": numbers, "index": 0}]
        return {"id": "embd-aad6fc62b17349b192ef09225058bc45", "object": "list", "data": data,
                "model": "mistral-embed", "usage": usage}, [], ""  # fmt: skip
    if path.endswith("moderations"):
        return {"id": "mod-1", "model": "mistral-moderation-2411", "results": []}, [], ""
    return None


def completion() -> Json:
    message = {"role": "assistant", "content": TEXT, "tool_calls": None, "prefix": False}
    return {
        "id": CHAT_ID,
        "object": "chat.completion",
        "model": "mistral-small-latest",
        "usage": CHAT_USAGE,
        "created": 1_702_256_327,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }


def chunks() -> list[Json]:
    """Only the last has the usage."""
    begun = {name: completion()[name] for name in ("id", "model", "created")}
    begun["object"] = "chat.completion.chunk"
    delta = {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}
    ended = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
    return [*[{**begun, "choices": [delta]}] * 5,
            {**begun, "choices": [ended], "usage": CHAT_USAGE}]  # fmt: skip


def _conversation(path: str, body: Json) -> Reply:
    moment = "2025-05-27T11:41:59Z"
    if body.get("stream"):
        return None, [
            {"type": "conversation.response.started", "created_at": moment,
             "conversation_id": "conv_06835b9dc2a87e478000"},
            {"type": "conversation.response.done", "created_at": moment,
             "usage": CONNECTOR_USAGE},
        ], EVENTS  # fmt: skip
    output = {"object": "entry", "type": "message.output", "created_at": moment, "id": "msg_1",
              "model": "mistral-medium-2505", "role": "assistant", "content": TEXT}  # fmt: skip
    return {"conversation_id": "conv_06835b9dc2a87e478000", "usage": CONNECTOR_USAGE,
            "object": "conversation.response", "outputs": [output]}, [], ""  # fmt: skip


def _cohere(path: str, body: Json) -> Reply | None:
    is_first = not path.startswith("v2/")
    if path.endswith("/chat"):
        if is_first:
            return (None, _events(), LINES) if body.get("stream") else (_first(), [], "")
        return (None, _second_events(), EVENTS) if body.get("stream") else (second(), [], "")
    meta = {"api_version": {"version": "1" if is_first else "2"}}
    if path.endswith("/embed"):
        vectors: Any = [[0.25, -0.5]]
        return {"id": COHERE_ID, "response_type": "embeddings_floats" if is_first else
                "embeddings_by_type", "texts": [TEXT],
                "embeddings": vectors if is_first else {"float": vectors},
                "meta": {**meta, "billed_units": {"input_tokens": 2}}}, [], ""  # fmt: skip
    if path.endswith("/rerank"):
        return {"id": COHERE_ID, "results": [{"index": 0, "relevance_score": 0.98}],
                "meta": {**meta, "billed_units": {"search_units": 1}}}, [], ""  # fmt: skip
    if path.endswith("/tokenize"):
        return {"tokens": [1], "token_strings": [TEXT], "meta": meta}, [], ""
    return None


def second() -> Json:
    message = {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    return {"id": COHERE_ID, "finish_reason": "COMPLETE", "message": message, "usage": BILLED}


def _second_events() -> list[Json]:
    message: Json = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    delta = {"message": {"content": {"text": f"{CANARY} "}}}
    return [
        {"type": "message-start", "id": COHERE_ID,
         "delta": {"message": {**message, "citations": []}}},
        *[{"type": "content-delta", "index": 0, "delta": delta}] * 5,
        {"type": "message-end", "id": COHERE_ID,
         "delta": {"finish_reason": "COMPLETE", "usage": BILLED}},
    ]  # fmt: skip


def _first() -> Json:
    return {"text": TEXT, "generation_id": "g-1", "response_id": COHERE_ID, "chat_history": [],
            "finish_reason": "COMPLETE",
            "meta": {"api_version": {"version": "1"}, **BILLED}}  # fmt: skip


def _events() -> list[Json]:
    text = {"event_type": "text-generation", "is_finished": False, "text": f"{CANARY} "}
    return [
        {"event_type": "stream-start", "is_finished": False, "generation_id": "g-1"},
        *[text] * 5,
        {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE",
         "response": _first()},
    ]  # fmt: skip
