"""What a caller gets is what the library made: the same class, the same object, every method."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import time
from typing import Any

import httpx2
import pytest

import tallystick
from tallystick import capture, ending
from tests.cases import each_case
from tests.client import kinds, offline, provider_stub
from tests.client.offline import queued
from tests.client.provider_stub import CHAT_COUNTS, RESPONSES_COUNTS
from tests.client.styles import CHAT, CLAUDE, STREAMED
from tests.lazily import anthropic, openai

pytestmark = pytest.mark.usefixtures("captured")


def test_an_answer_is_the_object_that_the_library_parsed() -> None:
    seen: list[Any] = []

    class Watching(openai.OpenAI):
        def _process_response(self, **kwargs: Any) -> Any:
            seen.append(super()._process_response(**kwargs))
            return seen[-1]

    http = offline.openai_client()._client
    client = Watching(api_key="k", http_client=http)
    answer = client.chat.completions.create(**CHAT)
    assert answer is seen[0]
    assert type(answer) is openai.types.chat.ChatCompletion
    stream = client.chat.completions.create(**STREAMED)
    assert stream is seen[1]
    assert type(stream) is openai.Stream
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    assert raw is seen[2]
    assert raw.parse() is raw.parse()


def test_an_answer_can_be_dumped_copied_and_pickled() -> None:
    answer = offline.openai_client().chat.completions.create(**CHAT)
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert copy.deepcopy(answer) == answer
    assert "tallystick" not in answer.model_dump_json()


def test_streams_keep_their_methods() -> None:
    stream = offline.openai_client().chat.completions.create(**STREAMED)
    assert next(stream).object == "chat.completion.chunk"
    assert iter(stream) is not None
    with stream as entered:
        assert entered is stream
    stream.close()
    assert stream.response.is_closed
    # The iterator keeps its other methods.
    stream = offline.openai_client().chat.completions.create(**STREAMED)
    next(stream)
    assert inspect.isgenerator(stream._iterator)
    stream._iterator.close()
    assert list(stream) == []


def test_an_asynchronous_streams_methods_work() -> None:
    async def ask() -> None:
        stream = await offline.async_openai_client().chat.completions.create(**STREAMED)
        assert type(stream) is openai.AsyncStream
        assert (await anext(stream)).object == "chat.completion.chunk"
        async with stream as entered:
            assert entered is stream
        await stream.close()
        assert stream.response.is_closed

    asyncio.run(ask())


def test_a_dropped_stream_is_closed_as_soon_as_without_the_client() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    response = stream.response
    gc.disable()
    try:
        del stream
        assert response.is_closed
    finally:
        gc.enable()


@each_case("end", ["close", "with", "collect", "exit"])
def test_an_abandoned_stream_counts_once(end: str) -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    if end == "close":
        stream.close()
        stream.close()
    elif end == "with":
        with stream:
            pass
    elif end == "exit":
        current = capture.active
        assert current is not None
        ending.end_open_streams(current)
    del stream
    gc.collect()
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == (479, 1)


def test_an_asynchronous_stream_that_is_dropped_counts_once() -> None:
    async def ask() -> None:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)
        await anext(stream)
        response = stream.response
        del stream
        for _ in range(5):  # the event loop closes what was dropped
            await asyncio.sleep(0)
        assert response.is_closed
        assert len(queued()) == 1

    asyncio.run(ask())
    assert queued() == []


def test_an_asynchronous_stream_that_outlives_its_loop_counts_at_the_end() -> None:
    async def ask() -> Any:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)
        await anext(stream)
        return stream

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(ask())
    loop.close()
    del stream
    gc.collect()
    current = capture.active
    assert current is not None
    ending.end_open_streams(current)
    assert len(queued()) == 1


def test_streams_of_mappings_count() -> None:
    kinds._mappings()
    kinds._async_mappings()
    told = [(one["prompt_tokens"], one["completion_tokens"]) for one in queued()]
    assert told == [CHAT_COUNTS[:2], RESPONSES_COUNTS[:2]] * 2


def test_a_stream_that_failed_counts_though_it_is_kept() -> None:
    events = provider_stub.messages_events()[:5]
    events.append(("error", {"type": "error", "error": {"type": "overloaded_error"}}))
    claude = offline.anthropic_client.__wrapped__(lambda request: offline.stream(events))
    stream = claude.messages.create(**CLAUDE, stream=True)
    with pytest.raises(anthropic.APIStatusError):
        list(stream)
    assert len(queued()) == 1
    stream.close()
    assert queued() == []


def test_the_time_of_a_raw_response_is_not_that_of_its_parsing() -> None:
    began = time.monotonic()
    response = offline.openai_client().chat.completions.with_raw_response.create(**CHAT)
    time.sleep(0.3)
    response.parse()
    (record,) = queued()
    assert record["latency_ms"] <= (time.monotonic() - began - 0.3) * 1000 + 1  # rounded


def test_a_cancelled_stream_counts_once_and_is_cancelled() -> None:
    async def ask() -> None:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)

        async def read() -> None:
            async for _ in stream:
                await asyncio.sleep(0)

        task = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stream.close()

    asyncio.run(ask())
    assert len(queued()) == 1


def test_the_hooked_methods_and_exceptions_are_the_librarys_own() -> None:
    for library in (openai, anthropic):
        sync = library._base_client.SyncAPIClient.request
        asynchronous = library._base_client.AsyncAPIClient.request
        assert sync.__name__ == asynchronous.__name__ == "request"
        assert "cast_to" in inspect.signature(sync).parameters
        assert inspect.iscoroutinefunction(asynchronous)
        assert not inspect.iscoroutinefunction(sync)
    # Exceptions are the librarys own.
    client = offline.openai_client.__wrapped__(lambda request: httpx2.Response(429))
    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(**CHAT)
    assert raised.value.__cause__ is None
    assert queued() == []


def test_no_header_and_no_member_is_added_to_a_request() -> None:
    requests: list[Any] = []

    def note(request: Any) -> Any:
        requests.append((dict(request.headers), request.content))
        return offline.answer(request)

    client = offline.openai_client.__wrapped__(note)
    client.chat.completions.create(**CHAT, stream=True).close()
    tallystick.close(0)
    client.chat.completions.create(**CHAT, stream=True).close()
    with_client, without = requests
    for headers in (with_client[0], without[0]):
        headers.pop("x-stainless-read-timeout", None)
        headers.pop("idempotency-key", None)
    assert with_client == without


def test_a_bound_method_taken_before_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tallystick.close(0)
    create = offline.openai_client().chat.completions.create
    tallystick.init()
    create(**CHAT)
    (record,) = queued()
    assert record["cached_tokens"] == CHAT_COUNTS[2]


def test_two_layers_count_once() -> None:
    """A middleware of the library parses on the way what is parsed at the end again."""

    def middleware(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        response.parse()
        return response

    http = offline.anthropic_client()._client
    client = anthropic.Anthropic(api_key="k", http_client=http, middleware=[middleware])
    client.messages.create(**CLAUDE)
    client.messages.with_raw_response.create(**CLAUDE).parse()
    assert len(queued()) == 2


def test_a_raw_response_that_is_parsed_twice_counts_once_and_leaves_nothing() -> None:
    response = offline.openai_client().chat.completions.with_raw_response.create(**STREAMED)
    list(response.parse())
    again = response.parse(to=openai.Stream[dict[str, Any]])
    current = capture.active
    assert current is not None
    assert current.open_streams == {}
    again.close()
    assert len(queued()) == 1


def test_one_shot_iterators_are_not_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    tallystick.close(0)
    tallystick.init(prefix_hash=True)
    bodies: list[bytes] = []

    def note(request: Any) -> Any:
        bodies.append(request.content)
        return offline.answer(request)

    client = offline.anthropic_client.__wrapped__(note)
    client.messages.create(**{**CLAUDE, "messages": iter(CLAUDE["messages"])})
    assert b"asked" in bodies[0]
