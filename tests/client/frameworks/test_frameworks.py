"""Calls over LiteLLM, by itself and under DSPy and CrewAI: each counts once, whoever sends it.

The frameworks are run against the stub in processes of their own, which takes long, so `make test`
has only their HTTP handlers, with the responses that httpx makes.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import httpx
import pytest

import tallystick
from tallystick import hooks
from tests.cases import each_case
from tests.client.environments import LOCKS, environment_python, run
from tests.client.frameworks.calls import CHATS
from tests.client.frameworks.stub import (
    CONVERSE_USAGE,
    GEMINI_COUNTS,
    INVOKE_METRICS,
    gemini_answer,
)
from tests.client.offline import queued
from tests.client.provider_stub import (
    CHAT_COUNTS,
    CHAT_USAGE,
    MESSAGES_COUNTS,
    RESPONSES_COUNTS,
    Event,
    chat_events,
    completion,
    event_message,
    message,
    messages_events,
    responses_events,
)
from tests.worker.support.promises import Note

pytestmark = pytest.mark.usefixtures("captured")

MODULE: Final = "litellm.llms.custom_httpx.http_handler"
# What neither needs nor finds here, where it would wait.
OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("framework", "lock"), [("litellm", "litellm"), ("dspy", "litellm"), ("crewai", "crewai")]
)
def test_every_call_of_a_framework_counts_once(
    framework: str, lock: str, tmp_path: Any, note: Note
) -> None:
    python = environment_python(LOCKS / "frameworks" / f"{lock}.lock")
    settings = {**OFFLINE, "HOME": str(tmp_path), "DSPY_CACHEDIR": str(tmp_path / "cache")}
    program = ("-W", "ignore", "-m", "tests.client.frameworks.calls", framework)
    found = json.loads(run(python, *program, **settings))
    wrong = [row for row in found["rows"] if row["found"] != row["expected"]]
    assert wrong == []
    assert found["faults"] == 0
    for model, _, provider, _ in CHATS if framework == "litellm" else ():
        rows = [row for row in found["rows"] if row["name"].partition(",")[0] == model]
        assert {each["provider"] for row in rows for each in row["records"]} == {provider}
    note(f"calls of {framework}", len(found["rows"]), len(wrong))


def _sse(events: list[Event], *, is_done: bool = False) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for _, event in events]
    return "".join([*lines, "data: [DONE]\n\n" * is_done]).encode()


def _invoked(begun: dict[str, Any] | None = None) -> bytes:
    """Return the frames of a stream of Claude's, whose first event may be another."""
    documents = [document for _, document in messages_events(2)]
    documents[0] = begun or documents[0]
    documents[-1] = {**documents[-1], "amazon-bedrock-invocationMetrics": INVOKE_METRICS}
    packed = [base64.b64encode(json.dumps(each).encode()).decode() for each in documents]
    return b"".join(event_message("chunk", {"bytes": each}) for each in packed)


CLAUDE_URL: Final = (
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-v1%3A0"
)
GEMINI_URL: Final = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro"
ANSWER: Final = json.dumps(completion()).encode()
# The URL, the body of the answer, and what is recorded: provider, model, endpoint, ID and counts.
EXCHANGES: Final[dict[str, tuple[str, bytes, tuple[Any, ...]]]] = {
    "chat": (
        "https://api.groq.com/openai/v1/chat/completions", ANSWER,
        ("groq", "gpt-4o-2024-08-06", "chat/completions", "chatcmpl-1", *CHAT_COUNTS),
    ),
    "chat of a gateway": (
        "https://llm.example.com/v1/chat/completions", ANSWER,
        ("hosted", "gpt-4o-2024-08-06", "chat/completions", "chatcmpl-1", *CHAT_COUNTS),
    ),
    "chat stream": (
        "https://api.deepseek.com/chat/completions",
        _sse(chat_events(with_usage=True), is_done=True),
        ("deepseek", "gpt-4o-2024-08-06", "chat/completions", "chatcmpl-1", *CHAT_COUNTS),
    ),
    "messages": (
        "https://api.anthropic.com/v1/messages", json.dumps(message()).encode(),
        ("anthropic", "claude-sonnet-4-6", "messages", "msg_1", *MESSAGES_COUNTS),
    ),
    "messages stream": (
        "https://api.anthropic.com/v1/messages", _sse(messages_events()),
        ("anthropic", "claude-sonnet-4-6", "messages", "msg_1", *MESSAGES_COUNTS),
    ),
    "responses stream": (
        "https://api.openai.com/v1/responses", _sse(responses_events()),
        ("openai", "gpt-4o-2024-08-06", "responses", "resp_1", *RESPONSES_COUNTS),
    ),
    "long Gemini": (
        f"{GEMINI_URL}:generateContent",
        json.dumps({"promptFeedback": "x" * 70_000, **gemini_answer(is_over=True),
                    "modelVersion": "projects/123456789012/models/gemini-2.5-pro"}).encode(),
        ("google", "gemini-2.5-pro", "generateContent", "mAUjaYqJM5-sjMcP3Z2V4Aw", *GEMINI_COUNTS),
    ),
    "Gemini stream": (
        f"{GEMINI_URL}:streamGenerateContent?alt=sse",
        _sse([("", gemini_answer(is_over=False)), ("", gemini_answer(is_over=True))]),
        ("google", "gemini-2.5-pro", "generateContent", "mAUjaYqJM5-sjMcP3Z2V4Aw", *GEMINI_COUNTS),
    ),
    "converse stream": (
        f"{CLAUDE_URL}/converse-stream",
        event_message("messageStart", {}) + event_message("metadata", {"usage": CONVERSE_USAGE}),
        ("aws", "us.anthropic.claude-v1:0", "converse", "req_1", *MESSAGES_COUNTS),
    ),
    "invoke": (
        f"{CLAUDE_URL}/invoke", json.dumps(message()).encode(),
        ("aws", "us.anthropic.claude-v1:0", "invoke", "msg_1", *MESSAGES_COUNTS),
    ),
    "invoke stream": (
        f"{CLAUDE_URL}/invoke-with-response-stream", _invoked(),
        ("aws", "us.anthropic.claude-v1:0", "invoke", "msg_1", *MESSAGES_COUNTS),
    ),
}  # fmt: skip


class _Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that comes in pieces, which end anywhere."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield from (self._body[at : at + 37] for at in range(0, len(self._body), 37))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _response(name: str) -> httpx.Response:
    url, body, _ = EXCHANGES[name]
    is_frames = url.endswith("-stream")
    kind = "application/vnd.amazon.eventstream" if is_frames else "text/event-stream"
    headers = {"content-type": kind if "stream" in name else "application/json"}
    headers["x-request-id"] = "req_1"
    content: Any = {"stream": _Pieces(body)} if "stream" in name else {"content": body}
    return httpx.Response(200, headers=headers, request=httpx.Request("POST", url), **content)


def _handlers(answer: Callable[[], httpx.Response]) -> tuple[Any, Any]:
    """LiteLLM's handlers, hooked as its own module is when it is imported."""

    class HTTPHandler:
        def post(self, url: str, **options: Any) -> httpx.Response:
            return answer()

    class AsyncHTTPHandler:
        async def post(self, url: str, **options: Any) -> httpx.Response:
            return answer()

    module = ModuleType(MODULE)
    vars(module).update(HTTPHandler=HTTPHandler, AsyncHTTPHandler=AsyncHTTPHandler)
    hooks._hook_elsewhere(module)
    return HTTPHandler(), AsyncHTTPHandler()


def _record() -> tuple[Any, ...]:
    (record,) = queued()
    assert record["declared_max_tokens"] == 64
    assert record["latency_ms"] > 0
    assert "status" not in record
    assert tallystick.stats()["faults"] == 0
    names = ("provider", "model", "endpoint", "request_id", "prompt_tokens", "completion_tokens")
    return tuple(record.get(name) for name in (*names, "cached_tokens", "cache_write_tokens"))


def _asked(url: str) -> dict[str, Any]:
    """The options of `post`, whose body is JSON text, bytes or members."""
    if "googleapis" in url:
        return {"json": {"contents": [], "generationConfig": {"maxOutputTokens": 64}}}
    if "/converse" in url:
        return {"data": json.dumps({"inferenceConfig": {"maxTokens": 64}}).encode()}
    body = {"max_tokens": 64} if "/model/" in url else {"model": "m", "max_tokens": 64}
    logged = SimpleNamespace(model_call_details={"custom_llm_provider": "hosted"})
    return {"data": json.dumps(body), "logging_obj": logged}


@each_case("name", EXCHANGES)
def test_an_answer_over_litellms_own_client_counts_once(name: str) -> None:
    url, body, expected = EXCHANGES[name]
    handler, async_handler = _handlers(lambda: _response(name))
    assert handler.post(url, **_asked(url)).read() == body
    assert _record() == expected

    async def ask() -> bytes:
        response = await async_handler.post(url, **_asked(url))
        return b"".join([each async for each in response.aiter_bytes()])

    assert asyncio.run(ask()) == body
    assert _record() == expected


class _Transported:
    """A response of DSPy's own transport."""

    def __init__(self, name: str, *, is_async: bool) -> None:
        made = _response(name)
        self.status, self.headers = made.status_code, list(made.headers.items())
        pieces = _Pieces(EXCHANGES[name][1])
        self._chunks: Any = aiter(pieces) if is_async else iter(pieces)


@each_case("name", ["chat", "chat stream", "messages stream", "long Gemini", "Gemini stream"])
def test_an_answer_to_dspys_own_engine_counts_once(name: str) -> None:
    url, body, (_, *expected) = EXCHANGES[name]

    class StdlibTransport:
        def stream(self, request: Any) -> Any:
            return _Transported(name, is_async=False)

    class StdlibAsyncTransport:
        async def _do_stream(self, request: Any) -> Any:
            return _Transported(name, is_async=True)

    for kind, place in ((StdlibTransport, "_sync"), (StdlibAsyncTransport, "_async")):
        module = ModuleType(f"dspy._vendor.lm15.transports.{place}")
        vars(module)[kind.__name__] = kind
        hooks._hook_elsewhere(module)
    asked = _asked(url)
    sent = asked.get("data") or json.dumps(asked["json"])
    request = SimpleNamespace(method="POST", url=url, body=sent)
    assert b"".join(StdlibTransport().stream(request)._chunks) == body
    assert _record()[1:] == tuple(expected)

    async def ask() -> bytes:
        response = await StdlibAsyncTransport()._do_stream(request)
        return b"".join([each async for each in response._chunks])

    assert asyncio.run(ask()) == body
    assert _record()[1:] == tuple(expected)


def test_a_stream_counts_when_its_last_event_is_read() -> None:
    """LiteLLM reads no further, and keeps the response."""
    url, _, expected = EXCHANGES["messages stream"]
    handler, _ = _handlers(lambda: _response("messages stream"))
    lines = handler.post(url, **_asked(url)).iter_lines()
    assert any("message_delta" in line for line in lines)
    assert _record() == expected


def test_a_stream_that_is_left_early_says_so() -> None:
    url, _, _ = EXCHANGES["messages stream"]
    handler, _ = _handlers(lambda: _response("messages stream"))
    lines = handler.post(url, **_asked(url)).iter_lines()
    assert "message_start" in next(lines)
    lines.close()
    gc.collect()
    (record,) = queued()
    assert (record["status"], record["completion_tokens"]) == ("cancelled", 1)


def test_claude_at_bedrock_keeps_the_parts_that_only_its_own_usage_has() -> None:
    written = {"cache_creation": {"ephemeral_1h_input_tokens": 17}}
    answer = {**message(), "usage": {**message()["usage"], **written}}
    headers = {f"x-amzn-bedrock-{name}-token-count": "9" for name in ("input", "output")}
    request = httpx.Request("POST", f"{CLAUDE_URL}/invoke")
    whole = httpx.Response(200, json=answer, headers=headers, request=request)
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    frames = _Pieces(_invoked({"type": "message_start", "message": answer}))
    stream = httpx.Response(200, stream=frames, headers=headers, request=request)
    for suffix, response in (("", whole), ("-with-response-stream", stream)):
        url = f"{CLAUDE_URL}/invoke{suffix}"
        _handlers(iter([response]).__next__)[0].post(url, **_asked(url)).read()
        (record,) = queued()
        assert (record["cache_write_1h_tokens"], record["prompt_tokens"]) == (17, 401 + 61 + 17)


# What is posted besides calls, and answers that count nothing.
NO_CALLS: Final[dict[str, tuple[str, Any, dict[str, int]]]] = {
    "log": ("https://cloud.langfuse.com/api/public/ingestion", {"usage": CHAT_USAGE}, {}),
    "count": ("https://api.anthropic.com/v1/messages/count_tokens", {"input_tokens": 9}, {}),
    "no usage": ("https://api.x.ai/v1/chat/completions", {"model": "m"}, {"chat/completions": 1}),
    "null": ("https://api.x.ai/v1/chat/completions", {"usage": None}, {"chat/completions": 1}),
    "text": ("https://api.x.ai/v1/chat/completions", {"usage": "7"}, {"chat/completions": 1}),
    "a list": ("https://api.x.ai/v1/chat/completions", [1], {"chat/completions": 1}),
    "words": (f"{GEMINI_URL}:generateContent", {"usageMetadata": "x"}, {"generateContent": 1}),
    "odd": (f"{CLAUDE_URL}/converse", {"usage": {"inputTokens": "x"}}, {"converse": 1}),
}


@pytest.mark.parametrize("name", NO_CALLS)
def test_what_is_no_call_or_says_no_usage_counts_nothing(name: str) -> None:
    url, answer, uncaptured = NO_CALLS[name]
    request = httpx.Request("POST", url)
    handler, _ = _handlers(lambda: httpx.Response(200, json=answer, request=request))
    assert handler.post(url, data={"model": "m"}).json() == answer
    assert queued() == []
    assert tallystick.stats()["uncaptured"] == uncaptured
    assert tallystick.stats()["faults"] == 0


@each_case("data", ["{", b"\xff", "[1]", 7, iter(["{}"])])
def test_a_request_that_cannot_be_read_is_sent_as_it_is(data: Any) -> None:
    url = EXCHANGES["chat"][0]
    handler, _ = _handlers(lambda: _response("chat"))
    assert handler.post(url, data=data).status_code == 200
    if not isinstance(data, (str, bytes, int)):
        assert next(data) == "{}"
    assert len(queued()) == 1
    assert tallystick.stats()["faults"] == 0


def test_an_error_of_the_provider_counts_nothing() -> None:
    def fail() -> httpx.Response:
        raise httpx.ConnectError("refused")

    handler, async_handler = _handlers(fail)
    url = EXCHANGES["chat"][0]
    with pytest.raises(httpx.ConnectError):
        handler.post(url, data="{}")
    with pytest.raises(httpx.ConnectError):
        asyncio.run(async_handler.post(url, data="{}"))
    assert queued() == []
    assert tallystick.stats()["faults"] == 0
