"""`init(include_usage=…)`: chat streams say their usage, and programs get their own chunks."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import pytest

import tallystick
from tallystick.hooks.extra_usage import hide
from tests.client.collector import refusing_dsn
from tests.client.offline import capturing, queued, stream
from tests.client.provider_stub import CHAT_COUNTS, Json, chat_events, text_events
from tests.client.styles import CHAT, TEXT
from tests.lazily import openai

STREAM: Final = {**CHAT, "stream": True}
ADDED: Final = {"include_usage": True}


class _Provider:
    """Sends the usage to who asks for it; `seen` are the members of the requests."""

    def __init__(self) -> None:
        self.seen: list[Json] = []
        self.status = 200

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.seen.append(body)
        if self.status != 200:
            return httpx2.Response(self.status, json={"error": {"message": "unknown field"}})
        if not request.url.path.endswith("/chat/completions"):
            return stream(text_events())
        options = body.get("stream_options") or {}
        return stream(chat_events(with_usage=bool(options.get("include_usage")), chunks=3))


@pytest.fixture
def provider() -> _Provider:
    return _Provider()


@pytest.fixture
def turned_on() -> Iterator[None]:
    with capturing(refusing_dsn(), include_usage=True):
        yield


def _client(provider: _Provider, url: str = "https://llm.example.com/v1") -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(provider.answer))
    return openai.OpenAI(api_key="k", base_url=url, max_retries=2, http_client=http)


async def _async_client(provider: _Provider) -> Any:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(provider.answer))
    url = "https://llm.example.com/v1"
    return openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=2, http_client=http)


def _iterate(client: Any) -> list[Any]:
    return [*client.chat.completions.create(**STREAM)]


def _help(client: Any) -> list[Any]:
    with client.chat.completions.stream(**CHAT) as events:
        found = [event.chunk for event in events if event.type == "chunk"]
        assert events.get_final_completion().usage is None
        return found


async def _iterate_async(provider: _Provider) -> list[Any]:
    client = await _async_client(provider)
    return [chunk async for chunk in await client.chat.completions.create(**STREAM)]


async def _help_async(provider: _Provider) -> list[Any]:
    client = await _async_client(provider)
    async with client.chat.completions.stream(**CHAT) as events:
        return [event.chunk async for event in events if event.type == "chunk"]


WAYS: Final[dict[str, Callable[[_Provider], list[Any]]]] = {
    "sync": lambda provider: _iterate(_client(provider)),
    "helper": lambda provider: _help(_client(provider)),
    "async": lambda provider: asyncio.run(_iterate_async(provider)),
    "async helper": lambda provider: asyncio.run(_help_async(provider)),
}


@pytest.mark.usefixtures("turned_on")
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_counts_and_the_program_gets_its_own_chunks(way: str, provider: _Provider) -> None:
    chunks = WAYS[way](provider)
    assert [len(chunk.choices) for chunk in chunks] == [1, 1, 1]
    assert all(chunk.usage is None for chunk in chunks)
    assert [body["stream_options"] for body in provider.seen] == [ADDED]
    (record,) = queued()
    assert (record["prompt_tokens"], record["completion_tokens"]) == CHAT_COUNTS[:2]
    assert tallystick.stats()["faults"] == 0


@pytest.mark.usefixtures("turned_on")
def test_completions_of_text_count_too(provider: _Provider) -> None:
    chunks = [*_client(provider).completions.create(**TEXT, stream=True)]
    assert [len(chunk.choices) for chunk in chunks] == [1, 1]
    assert provider.seen[0]["stream_options"] == ADDED
    assert len(queued()) == 1


def _ask(provider: _Provider, **asked: Any) -> None:
    answer = _client(provider).chat.completions.create(**{**CHAT, **asked})
    if asked.get("stream"):
        list(answer)


def _ask_raw(provider: _Provider) -> None:
    raw = _client(provider).chat.completions.with_raw_response.create(**STREAM)
    assert b'"choices": []' not in raw.http_response.read()


def _ask_streaming(provider: _Provider) -> None:
    with _client(provider).chat.completions.with_streaming_response.create(**STREAM) as response:
        assert not any('"choices": []' in line for line in response.iter_lines())


# What is asked, and the `stream_options` that the provider then gets.
UNTOUCHED: Final[dict[str, tuple[Callable[[_Provider], None], Any]]] = {
    "no stream": (functools.partial(_ask, stream=False), None),
    "set": (functools.partial(_ask, stream=True, stream_options=ADDED), ADDED),
    "set to no": (
        functools.partial(_ask, stream=True, stream_options={"include_usage": False}),
        {"include_usage": False},
    ),
    "in extra_body": (
        functools.partial(_ask, stream=True, extra_body={"stream_options": {"other": 1}}),
        {"other": 1},
    ),
    "raw": (_ask_raw, None),
    "streaming response": (_ask_streaming, None),
}


@pytest.mark.usefixtures("turned_on")
@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_is_set_or_raw_is_left_alone(name: str, provider: _Provider) -> None:
    ask, expected = UNTOUCHED[name]
    ask(provider)
    assert [body.get("stream_options") for body in provider.seen] == [expected]
    assert tallystick.stats()["faults"] == 0


@pytest.mark.usefixtures("turned_on")
def test_a_usage_that_the_program_asked_for_is_not_hidden(provider: _Provider) -> None:
    chunks = [*_client(provider).chat.completions.create(**STREAM, stream_options=ADDED)]
    assert [len(chunk.choices) for chunk in chunks] == [1, 1, 1, 0]


def test_only_a_chunk_with_nothing_but_the_usage_is_hidden() -> None:
    """Azure begins with a chunk that has no choices, and others count in their last chunk."""
    begun = SimpleNamespace(choices=[], usage=None)
    ended = SimpleNamespace(choices=["stop"], usage={"prompt_tokens": 1})
    added = SimpleNamespace(choices=[], usage={"prompt_tokens": 1})
    closed = []

    async def stream_chunks() -> AsyncIterator[Any]:
        try:
            for chunk in (begun, ended, added):
                yield chunk
        finally:
            closed.append(True)

    async def leave() -> None:
        shown = hide(stream_chunks())
        assert await anext(shown) is begun
        await shown.aclose()
        assert closed == [True]

    assert list(hide(chunk for chunk in (begun, ended, added))) == [begun, ended]
    asyncio.run(leave())


@pytest.mark.usefixtures("turned_on")
def test_a_server_that_rejects_the_option_is_not_asked_again(provider: _Provider) -> None:
    provider.status = 400
    with pytest.raises(openai.BadRequestError, match="unknown field"):
        _iterate(_client(provider))
    assert len(provider.seen) == 1


@pytest.mark.usefixtures("turned_on")
def test_a_stream_that_is_left_early_is_closed_as_before(provider: _Provider) -> None:
    chunks = _client(provider).chat.completions.create(**STREAM)
    assert next(chunks).choices
    chunks.close()
    assert chunks.response.is_closed
    assert tallystick.stats()["faults"] == 0


@pytest.mark.parametrize(
    ("wanted", "is_asked"),
    [
        ({}, False),
        ({"include_usage": False}, False),
        ({"include_usage": ["LLM.example.com"]}, True),
        ({"include_usage": "llm.example.com"}, True),
        ({"include_usage": {"api.openai.com"}}, False),
        ({"include_usage": 7}, False),
        ({"include_usage": [7]}, False),
    ],
)
def test_only_the_hosts_that_are_named_are_asked(
    wanted: dict[str, Any], is_asked: bool, provider: _Provider
) -> None:
    with capturing(refusing_dsn(), **wanted):
        _iterate(_client(provider))
        assert [body.get("stream_options") for body in provider.seen] == [
            ADDED if is_asked else None
        ]
        assert len(queued()) == is_asked
