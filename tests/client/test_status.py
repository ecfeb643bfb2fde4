"""How a call ended, where its counts are those of a call that was not finished or failed."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tallystick.hooks.litellm import SIGN, begin_at, take
from tallystick.hooks.responses import Lines
from tallystick.hooks.wrapping import watched
from tests.cases import each_case
from tests.client import offline, provider_stub
from tests.client.offline import queued
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED
from tests.lazily import anthropic, openai

pytestmark = pytest.mark.usefixtures("captured")
FAILURE = ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})


def statuses() -> list[str | None]:
    return [record.get("status") for record in queued()]


def break_off(request: httpx2.Request) -> httpx2.Response:
    """Answer with the first events of a message, and then an error."""
    return offline.stream([*provider_stub.messages_events()[:5], FAILURE])


def fail(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(529, json={"error": {"message": "busy"}}, headers=offline.HEADERS)


def respond(status: str) -> Callable[[httpx2.Request], httpx2.Response]:
    whole = provider_stub.response("resp_1", "completed") | {"status": status}
    ended = [("response.failed", {"type": "response.failed", "response": whole})]

    def handler(request: httpx2.Request) -> httpx2.Response:
        is_stream = json.loads(request.content).get("stream")
        return offline.stream(ended) if is_stream else offline.say(whole)

    return handler


def test_a_call_that_ended_well_sends_no_status() -> None:
    client, other = offline.anthropic_client(), offline.openai_client()
    client.messages.create(**CLAUDE)
    list(client.messages.create(**CLAUDE, stream=True))
    other.chat.completions.create(**CHAT)
    list(other.chat.completions.create(**STREAMED))
    list(other.responses.create(**ASKED, stream=True))
    assert statuses() == [None] * 5


def test_a_stream_that_is_left_before_its_last_counts_was_cancelled() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    stream.close()
    (record,) = queued()
    assert record["status"] == "cancelled"
    assert record["completion_tokens"] == 1  # a lower bound


def test_an_asynchronous_stream_that_is_left_early_was_cancelled_too() -> None:
    async def ask() -> None:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)
        async for _ in stream:
            break
        await stream.close()

    offline.run(ask())
    assert statuses() == ["cancelled"]


def test_a_stream_that_is_left_after_its_last_counts_ended_well() -> None:
    streams = {
        "response.completed": offline.openai_client().responses.create(**ASKED, stream=True),
        "message_delta": offline.anthropic_client().messages.create(**CLAUDE, stream=True),
    }
    for last, stream in streams.items():
        while next(stream).type != last:
            pass
        stream.close()
    assert statuses() == [None, None]


def test_a_stream_that_fails_on_the_way_is_an_error() -> None:
    with pytest.raises(anthropic.APIError):
        list(offline.anthropic_client(break_off).messages.create(**CLAUDE, stream=True))
    assert statuses() == ["error"]

    # An asynchronous stream that fails on the way is an error.
    async def ask() -> None:
        client = offline.async_anthropic_client(break_off)
        async for _ in await client.messages.create(**CLAUDE, stream=True):
            pass

    with pytest.raises(anthropic.APIError):
        offline.run(ask())
    assert statuses() == ["error"]


@each_case("is_stream", [False, True])
@each_case(
    ("theirs", "ours"), [("failed", "error"), ("cancelled", "cancelled"), ("incomplete", None)]
)
def test_the_responses_api_names_its_own_status(
    theirs: str, ours: str | None, is_stream: bool
) -> None:
    answer: Any = offline.openai_client(respond(theirs)).responses.create(**ASKED, stream=is_stream)
    if is_stream:
        list(answer)
    assert statuses() == [ours]


def test_a_call_without_counts_sends_nothing() -> None:
    with pytest.raises(openai.APIError):
        offline.openai_client(fail).chat.completions.create(**CHAT)
    assert queued() == []


def _count_always(ends: object = None) -> Callable[[httpx2.Request], httpx2.Response]:
    """Answer with a usage in every chunk, as vLLM does with `continuous_usage_stats`, and xAI."""

    def chunk(number: int) -> Any:
        choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
        usage = {"prompt_tokens": 10, "completion_tokens": number, "total_tokens": 10 + number}
        named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        last = {"finish_reason": ends} if number == 9 else {}
        return ("", {**named, "choices": [{**choice, **last}], "usage": usage})

    return lambda request: offline.stream([chunk(number) for number in range(1, 10)])


def _take(count: int, ends: object = None) -> None:
    client = offline.openai_client.__wrapped__(_count_always(ends))
    stream = client.chat.completions.create(**STREAMED)
    for _ in range(count):
        next(stream)
    if count < 10:
        stream.close()
    else:
        assert list(stream) == []


async def _take_async(count: int, ends: object = None) -> None:
    client = offline.async_openai_client.__wrapped__(_count_always(ends))
    stream = await client.chat.completions.create(**STREAMED)
    for _ in range(count):
        await anext(stream)
    await stream.close()


@each_case("is_async", [False, True])
@each_case(
    ("count", "ends", "status"),
    [(2, "stop", "cancelled"), (8, "stop", "cancelled"), (9, "stop", None), (9, None, "cancelled")],
)
def test_a_stream_with_a_usage_in_every_chunk_was_cancelled_unless_its_answer_had_ended(
    is_async: bool, count: int, ends: object, status: str | None
) -> None:
    if is_async:
        offline.run(_take_async(count, ends))
    else:
        _take(count, ends)
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (10, count)
    assert record.get("status") == status


def test_a_stream_with_a_usage_in_every_chunk_that_is_read_to_its_end_ended_well() -> None:
    client = offline.openai_client.__wrapped__(_count_always())
    assert len(list(client.chat.completions.create(**STREAMED))) == 9
    assert statuses() == [None]


@pytest.mark.parametrize(("count", "status"), [(2, "cancelled"), (10, None)])
def test_the_same_of_a_library_that_reads_lines(count: int, status: str | None) -> None:
    """LiteLLM over its own client: the bytes of a stream, and what ends it."""
    call = begin_at("http://llm.example.com/v1/chat/completions", {"model": "m"}, "vllm")
    assert call is not None
    call.begins_stream()
    request = httpx2.Request("POST", "http://llm.example.com")
    pieces = _count_always()(request).content.splitlines(keepends=True)
    lines = watched(iter(pieces), Lines(call, take, SIGN))
    for _ in range(len(pieces) if count == 10 else 2 * count):
        next(lines)
    del lines
    assert statuses() == [status]


def _count_in_a_choice(request: httpx2.Request) -> httpx2.Response:
    """Answer as Moonshot does: https://platform.moonshot.ai/docs/api/chat."""
    named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "kimi"}
    usage = {"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32, "cached_tokens": 8}
    said = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}
    return offline.stream([("", {**named, "choices": [each]}) for each in (said, said, last)])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_usage_in_a_choice_of_the_last_chunk_is_read(is_async: bool) -> None:
    async def ask() -> None:
        client = offline.async_openai_client.__wrapped__(_count_in_a_choice)
        async for _ in await client.chat.completions.create(**STREAMED):
            pass

    if is_async:
        offline.run(ask())
    else:
        client = offline.openai_client.__wrapped__(_count_in_a_choice)
        assert len(list(client.chat.completions.create(**STREAMED))) == 3
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (19, 13)
    assert (record["cached_tokens"], record["request_id"]) == (8, "chatcmpl-1")
    assert "status" not in record
