"""Answers that are billed and never become an object: a failed parser, a body read as text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import httpx2
import pydantic
import pytest

import tallystick
from tallystick import capture, ending
from tests.cases import each_case
from tests.client import offline, provider_stub
from tests.client.offline import queued, say
from tests.client.provider_stub import CHAT_COUNTS, MESSAGES_COUNTS, RESPONSES_COUNTS
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED
from tests.lazily import openai

pytestmark = pytest.mark.usefixtures("captured")
INVALID: Final = '{"count": "no number'


class Wanted(pydantic.BaseModel):
    count: int


def _chat(reason: str) -> offline.Handler:
    def answer(request: Any) -> httpx2.Response:
        whole = provider_stub.completion()
        whole["choices"][0]["finish_reason"] = reason
        whole["choices"][0]["message"]["content"] = INVALID
        return say(whole)

    return answer


def _response(request: Any) -> httpx2.Response:
    whole = json.loads(json.dumps(provider_stub.response("resp_1", "completed")))
    whole["output"][0]["content"][0]["text"] = INVALID
    return say(whole)


def _message(request: Any) -> httpx2.Response:
    return say({**provider_stub.message(), "content": [{"type": "text", "text": INVALID}]})


CHATS: Final = {**CHAT, "response_format": Wanted}
# What is asked, of whom, and what the answer counts.
FAILING: Final[dict[str, tuple[str, offline.Handler, Callable[[Any], Any], Any]]] = {
    "chat, cut off": (
        "openai", _chat("length"), lambda c: c.chat.completions.parse(**CHATS), CHAT_COUNTS,
    ),
    "chat, filtered": (
        "openai", _chat("content_filter"), lambda c: c.chat.completions.parse(**CHATS), CHAT_COUNTS,
    ),
    "chat, invalid": (
        "openai", _chat("stop"), lambda c: c.chat.completions.parse(**CHATS), CHAT_COUNTS,
    ),
    "responses, invalid": (
        "openai", _response, lambda c: c.responses.parse(**ASKED, text_format=Wanted),
        RESPONSES_COUNTS,
    ),
    "messages, invalid": (
        "anthropic", _message, lambda c: c.messages.parse(**CLAUDE, output_format=Wanted),
        MESSAGES_COUNTS,
    ),
    "beta messages, invalid": (
        "anthropic", _message, lambda c: c.beta.messages.parse(**CLAUDE, output_format=Wanted),
        MESSAGES_COUNTS,
    ),
}  # fmt: skip


def _in_pieces(request: Any) -> httpx2.Response:
    """As a network delivers it: nothing is there before it is read."""
    body = json.dumps(provider_stub.completion()).encode()
    return httpx2.Response(200, content=iter([body]), headers={"content-type": "application/json"})


def _counts() -> list[tuple[Any, ...]]:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
    return [tuple(record.get(name) for name in names) for record in queued()]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", FAILING)
def test_an_answer_that_its_parser_rejects_counts_once(name: str, is_async: bool) -> None:
    library, handler, ask, expected = FAILING[name]
    make = getattr(offline, f"{'async_' * is_async}{library}_client").__wrapped__

    async def ask_async() -> None:
        await ask(make(handler))

    with pytest.raises((openai.OpenAIError, pydantic.ValidationError)) as raised:
        asyncio.run(ask_async()) if is_async else ask(make(handler))
    assert raised.value.__cause__ is None
    (record,) = queued()
    assert record["request_id"] in ("chatcmpl-1", "resp_1", "msg_1")
    assert record["latency_ms"] > 0
    assert (record["prompt_tokens"], record["completion_tokens"]) == expected[:2]
    assert tallystick.stats()["faults"] == 0


def test_a_parser_that_accepts_its_answer_counts_it_once() -> None:
    parsed = offline.openai_client().chat.completions.parse(**CHAT)
    assert isinstance(parsed, openai.types.chat.ParsedChatCompletion)
    assert _counts() == [CHAT_COUNTS]


def test_a_raw_response_whose_parser_fails_counts_once() -> None:
    client = offline.openai_client.__wrapped__(_chat("length"))
    raw = client.chat.completions.with_raw_response.parse(**CHATS)
    with pytest.raises(openai.LengthFinishReasonError):
        raw.parse()
    del raw
    assert _counts() == [CHAT_COUNTS]


RAW: Final[dict[str, Callable[[Any], Any]]] = {
    "text": lambda raw: raw.text,
    "content": lambda raw: raw.content,
    "the underlying response": lambda raw: raw.http_response.json(),
    "nothing": lambda raw: None,
}


@pytest.mark.parametrize("read", RAW.values(), ids=RAW)
def test_a_raw_response_that_is_never_parsed_counts(read: Callable[[Any], Any]) -> None:
    raw = offline.openai_client().chat.completions.with_raw_response.create(**CHAT)
    read(raw)
    assert _counts() == []
    del raw
    assert _counts() == [CHAT_COUNTS]


def test_a_raw_stream_that_is_read_as_text_counts() -> None:
    raw = offline.openai_client().chat.completions.with_raw_response.create(**STREAMED)
    assert "data:" in raw.http_response.read().decode()
    del raw
    message = offline.anthropic_client().messages.with_raw_response.create(**CLAUDE, stream=True)
    assert b"message_delta" in message.http_response.read()
    del message
    assert _counts() == [CHAT_COUNTS, MESSAGES_COUNTS]


@each_case("read", ["json", "read", "text"])
def test_a_streaming_response_that_is_read_whole_counts(read: str) -> None:
    messages = offline.anthropic_client().messages.with_streaming_response
    with messages.create(**CLAUDE) as response:
        getattr(response, read)()
    del response
    assert _counts() == [MESSAGES_COUNTS]

    async def ask() -> None:
        chat = offline.async_openai_client().chat.completions.with_streaming_response
        async with chat.create(**CHAT) as response:
            await getattr(response, read)()

    asyncio.run(ask())
    assert _counts() == [CHAT_COUNTS]


def test_a_response_that_is_read_line_by_line_is_named_in_the_counters() -> None:
    chat = offline.openai_client(_in_pieces).chat.completions.with_streaming_response
    with chat.create(**CHAT) as response:
        assert list(response.iter_lines())
    del response
    assert queued() == []
    assert tallystick.stats()["uncaptured"] == {"chat/completions": 1}
    assert tallystick.stats()["without_usage"] == 1


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"{", b'data: {"usage"', b'data: ["usage"]', b"\xff"]
)
def test_a_body_without_a_usage_is_named_in_the_counters(body: bytes) -> None:
    client = offline.openai_client.__wrapped__(lambda request: httpx2.Response(200, content=body))
    client.chat.completions.with_raw_response.create(**CHAT)
    assert queued() == []
    assert tallystick.stats()["uncaptured"] == {"chat/completions": 1}
    assert tallystick.stats()["faults"] == 0


def test_a_flush_counts_what_was_read_and_an_end_names_the_rest() -> None:
    chat = offline.openai_client(_in_pieces).chat.completions
    raw = chat.with_raw_response.create(**CHAT)
    with chat.with_streaming_response.create(**CHAT) as unread:
        tallystick.flush(0)
        current = capture.active
        assert current is not None
        assert tallystick.stats()["captured"] == 1
        assert len(current.unparsed) == 1
        ending.end_open_streams(current)
        assert tallystick.stats()["uncaptured"] == {"chat/completions": 1}
    assert raw.parse().usage
    assert unread is not None
    assert tallystick.stats()["captured"] == 1


def test_a_parsed_stream_outlives_its_raw_response() -> None:
    raw = offline.openai_client().chat.completions.with_raw_response.create(**STREAMED)
    stream = raw.parse()
    del raw
    assert _counts() == []
    assert len(list(stream)) == 21
    assert _counts() == [CHAT_COUNTS]


def test_a_body_that_cannot_be_read_costs_a_record_and_no_call() -> None:
    raw = offline.openai_client().chat.completions.with_raw_response.create(**CHAT)
    raw.__dict__["_tallystick_call"]._response = None
    del raw
    assert tallystick.stats()["faults"] == 1


def test_a_parser_whose_answer_cannot_be_counted_raises_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tallystick.calls.Call.see", None)
    client = offline.openai_client.__wrapped__(_chat("length"))
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**CHATS)
    assert tallystick.stats()["faults"] == 1
