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

import copy
import functools
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
# The whole answer, or the events of a stream and how they are written.
Reply = tuple["Json | None", list[Json], str]
EVENTS, LINES = "text/event-stream", "application/stream+json"

# What is answered, by the name of its kind.
DOCUMENTS: Json = json.loads(Path(__file__).with_suffix(".json").read_text())
CACHED_USAGE, TOOL_USAGE = DOCUMENTS["cached_usage"], DOCUMENTS["tool_usage"]
BILLED: Json = DOCUMENTS["second"]["usage"]
CACHED_COUNTS = (696_219, 214, 696_190, None)
TOOL_COUNTS = (27 + 10_309, 45 + 31, None, None)
CHAT_COUNTS = (16, 34, 8, None)
CONNECTOR_COUNTS = (188 + 7_112, 55, None, None)
INTERACTION_COUNTS = (7, 42, 0, None)
BILLED_COUNTS = (5, 418, None, None)
CHAT_ID: str = DOCUMENTS["completion"]["id"]
RESPONSE_ID: str = DOCUMENTS["content"]["responseId"]
COHERE_ID: str = DOCUMENTS["second"]["id"]


def document(name: str) -> Any:
    return copy.deepcopy(DOCUMENTS[name])


completion, chunks, second = (functools.partial(document, name) for name in (
    "completion", "chunks", "second"))  # fmt: skip


def reply(path: str, body: Json) -> Reply | None:
    """Return what is answered to a POST; None if there is no such path."""
    library, _, rest = path.lstrip("/").partition("/")
    answer = {"google": _gemini, "mistral": _mistral, "cohere": _cohere}.get(library)
    return None if answer is None else answer(rest, body)


def _either(body: Json, whole: str, events: str, kind: str = EVENTS) -> Reply:
    return (None, document(events), kind) if body.get("stream") else (document(whole), [], "")


def _gemini(path: str, body: Json) -> Reply | None:
    action = path.rpartition(":")[2]
    usage = TOOL_USAGE if body.get("tools") else CACHED_USAGE
    if action == "generateContent":
        return content(usage, "STOP"), [], ""
    if action == "streamGenerateContent":
        prompt = usage["promptTokenCount"]
        begun = {"promptTokenCount": prompt, "totalTokenCount": prompt}
        return None, [content(begun, None), content(usage, "STOP")], EVENTS
    if action in ("batchEmbedContents", "embedContent"):
        return document("embedded"), [], ""
    if action == "predict":
        statistics = {"token_count": 6, "truncated": False}
        embedded = {"embeddings": {"values": [0.25, -0.5], "statistics": statistics}}
        return {"predictions": [embedded] * len(body["instances"])}, [], ""
    if action == "countTokens":
        return {"totalTokens": 9}, [], ""
    is_interaction = path.endswith("interactions")
    return _either(body, "interaction", "interaction_events") if is_interaction else None


def job(name: str) -> Json:
    """Return a finished batch of Gemini's, of two answers."""
    return {**document("job"), "name": f"batches/{name}"}


def content(usage: Json, reason: str | None) -> Json:
    whole: Json = {**document("content"), "usageMetadata": usage}
    if reason is None:
        del whole["candidates"][0]["finishReason"]
    return whole


def _mistral(path: str, body: Json) -> Reply | None:
    if "conversations" in path:
        return _either(body, "conversation", "conversation_events")
    if path.endswith("completions"):
        return _either(body, "completion", "chunks")
    if path.endswith("embeddings"):
        whole = document("embeddings")
        whole["data"][0]["embedding"] *= 10_000 if "many" in str(body["input"]) else 1
        return whole, [], ""
    return (document("moderations"), [], "") if path.endswith("moderations") else None


def _cohere(path: str, body: Json) -> Reply | None:
    if path.endswith("/chat"):
        if path.startswith("v2/"):
            return _either(body, "second", "second_events")
        return _either(body, "first", "events", LINES)
    return (document(path), [], "") if path in DOCUMENTS else None
