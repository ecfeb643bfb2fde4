"""A stand-in for the providers that LiteLLM speaks to itself, beside those of `ProviderStub`."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.client.provider_stub import (
    CANARY,
    TEXT,
    Json,
    ProviderStub,
    event_message,
    messages_events,
)

GEMINI_USAGE = {
    "promptTokenCount": 503,
    "cachedContentTokenCount": 67,
    "candidatesTokenCount": 41,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 551,
}
GEMINI_COUNTS = (503, 48, 67, None)
CONVERSE_USAGE = {
    "inputTokens": 401,
    "outputTokens": 43,
    "totalTokens": 522,
    "cacheReadInputTokens": 61,
    "cacheWriteInputTokens": 17,
}
COHERE_USAGE = {"billed_units": {"input_tokens": 601, "output_tokens": 53}}
INVOKE_METRICS = {
    "inputTokenCount": 401,
    "outputTokenCount": 43,
    "cacheReadInputTokenCount": 61,
    "cacheWriteInputTokenCount": 17,
}


class FrameworkStub(ProviderStub):
    """`failing` is how many of the next requests get a 500."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = 0
        self.RequestHandlerClass = _handler_of(self.RequestHandlerClass)


def _handler_of(base: Any) -> Any:
    class Handler(base):  # type: ignore[misc]
        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            answer = next((each for end, each in _ANSWERS.items() if path.endswith(end)), None)
            if not self.server.failing and answer is None:
                super().do_POST()
                return
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._note(raw)
            if self.server.failing:
                self.server.failing -= 1
                self._send_json({"error": {"message": "overloaded"}}, 500)
            elif answer is not None:
                answer(self, json.loads(raw))

    return Handler


def gemini_answer(*, is_over: bool) -> Json:
    candidate = {"content": {"role": "model", "parts": [{"text": TEXT}]}, "index": 0}
    usage = GEMINI_USAGE
    if is_over:
        candidate["finishReason"] = "STOP"
    else:
        usage = {**GEMINI_USAGE, "candidatesTokenCount": 1}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-pro",
        "responseId": "mAUjaYqJM5-sjMcP3Z2V4Aw",
    }


def _send_gemini_stream(handler: Any, body: Json) -> None:
    handler._send_events([("", gemini_answer(is_over=False)), ("", gemini_answer(is_over=True))])


def _send_converse(handler: Any, body: Json) -> None:
    said = {"role": "assistant", "content": [{"text": TEXT}]}
    handler._send_json(
        {"output": {"message": said}, "stopReason": "end_turn", "usage": CONVERSE_USAGE,
         "metrics": {"latencyMs": 5}}
    )  # fmt: skip


def _send_converse_stream(handler: Any, body: Json) -> None:
    events = [
        event_message("messageStart", {"role": "assistant"}),
        event_message("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": CANARY}}),
        event_message("contentBlockStop", {"contentBlockIndex": 0}),
        event_message("messageStop", {"stopReason": "end_turn"}),
        event_message("metadata", {"usage": CONVERSE_USAGE, "metrics": {"latencyMs": 5}}),
    ]
    _send_frames(handler, events)


def _send_invoke_stream(handler: Any, body: Json) -> None:
    documents = [document for _, document in messages_events()]
    documents[-1] = {**documents[-1], "amazon-bedrock-invocationMetrics": INVOKE_METRICS}
    events = [
        event_message("chunk", {"bytes": base64.b64encode(json.dumps(each).encode()).decode()})
        for each in documents
    ]
    _send_frames(handler, events)


def _send_frames(handler: Any, frames: list[bytes]) -> None:
    """Send frames in pieces that end within them, as a network does."""
    chunked = ("Transfer-Encoding", "chunked")
    handler._start(200, "application/vnd.amazon.eventstream", chunked)
    whole = b"".join(frames)
    for start in range(0, len(whole), 100):
        handler._chunk(whole[start : start + 100])
    handler._chunk(b"")


def _send_cohere(handler: Any, body: Json) -> None:
    content = {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}
    identity = "0f8fad5b-d9cb-469f-a165-70867728950e"
    if not body.get("stream"):
        handler._send_json(
            {"id": identity, "finish_reason": "COMPLETE", "message": content, "usage": COHERE_USAGE}
        )
        return
    text = {"delta": {"message": {"content": {"text": TEXT}}}, "index": 0}
    end = {"delta": {"finish_reason": "COMPLETE", "usage": COHERE_USAGE}}
    handler._send_events(
        [
            ("", {"type": "message-start", "id": identity, "delta": {}}),
            ("", {"type": "content-delta", **text}),
            ("", {"type": "message-end", "id": identity, **end}),
        ]
    )


_ANSWERS = {
    ":generateContent": lambda handler, body: handler._send_json(gemini_answer(is_over=True)),
    ":streamGenerateContent": _send_gemini_stream,
    "/converse": _send_converse,
    "/converse-stream": _send_converse_stream,
    "/invoke-with-response-stream": _send_invoke_stream,
    "/v2/chat": _send_cohere,
}
