"""Every way in which the providers' libraries let a program make a call, as small functions.

Each takes clients of a `ProviderStub` server. The first 33 of OpenAI and 26 of Anthropic are
those that other tools were measured with; the further ones are what came up besides.
Plain Python of any version that the client runs on, and of any version of the libraries: what a
version does not have raises `AttributeError`, `TypeError` or `ImportError` before it asks anything.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.client.provider_stub import (
    CANARY,
    CHAT_COUNTS,
    EMBEDDINGS_COUNTS,
    MESSAGES_COUNTS,
    RESPONSES_COUNTS,
)

Counts = tuple[int, int, "int | None", "int | None"]
IMAGES_COUNTS = (50, 4_160, None, None)
MESSAGES = [{"role": "user", "content": f"{CANARY} asked"}]
CHAT: dict[str, Any] = {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 64}
STREAMED = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
TEXT: dict[str, Any] = {
    "model": "gpt-3.5-turbo-instruct",
    "prompt": f"{CANARY} asked",
    "max_tokens": 64,
}
ASKED: dict[str, Any] = {"model": "gpt-4o", "input": f"{CANARY} asked", "max_output_tokens": 64}
EMBEDDED: dict[str, Any] = {"model": "text-embedding-3-small", "input": f"{CANARY} asked"}
CLAUDE: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "messages": MESSAGES,
    "max_tokens": 64,
    "system": f"{CANARY} told",
}
BEDROCK = {**CLAUDE, "model": "us.anthropic.claude-sonnet-4-6-v1:0"}
VERTEX = {**CLAUDE, "model": "claude-sonnet-4-6"}


@dataclass
class Clients:
    """Made on demand, each once; `url` is the providers' server."""

    url: str
    _made: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _MAKERS:
            raise AttributeError(name)
        if name not in self._made:
            self._made[name] = _MAKERS[name](self.url)
        return self._made[name]

    async def aclose(self) -> None:
        """Asynchronous clients belong to the loop that used them."""
        for name in [name for name in self._made if name.startswith("async_")]:
            await self._made.pop(name).close()

    def close(self) -> None:
        for client in self._made.values():
            client.close()
        self._made.clear()


def _openai(name: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        import openai

        azure = {"api_version": "2024-10-21", "azure_endpoint": url}
        place = azure if "Azure" in name else {"base_url": f"{url}/v1"}
        return getattr(openai, name)(api_key="sk-canary-7f3a", max_retries=0, **place)

    return make


def _anthropic(name: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        import anthropic

        keys: dict[str, Any] = {"api_key": "sk-canary-7f3a"}
        if "Bedrock" in name:
            keys = {
                "aws_access_key": "AKcanary-7f3a",
                "aws_secret_key": "canary-7f3a",
                "aws_region": "us-east-1",
            }
        elif "Vertex" in name:
            keys = {"access_token": "canary-7f3a", "region": "us-east5", "project_id": "p"}
        return getattr(anthropic, name)(base_url=url, max_retries=0, **keys)

    return make


def _further(library: str, name: str, path: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        kind = getattr(importlib.import_module(library), name)
        return kind(api_key="sk-canary-7f3a", max_retries=0, base_url=f"{url}{path}")

    return make


_MAKERS: dict[str, Callable[[str], Any]] = {
    "groq": _further("groq", "Groq", "/groq"),
    "async_groq": _further("groq", "AsyncGroq", "/groq"),
    "together": _further("together", "Together", "/together/v1"),
    "async_together": _further("together", "AsyncTogether", "/together/v1"),
    "openai": _openai("OpenAI"),
    "async_openai": _openai("AsyncOpenAI"),
    "azure": _openai("AzureOpenAI"),
    "async_azure": _openai("AsyncAzureOpenAI"),
    "anthropic": _anthropic("Anthropic"),
    "async_anthropic": _anthropic("AsyncAnthropic"),
    "bedrock": _anthropic("AnthropicBedrock"),
    "async_bedrock": _anthropic("AsyncAnthropicBedrock"),
    "vertex": _anthropic("AnthropicVertex"),
    "async_vertex": _anthropic("AsyncAnthropicVertex"),
}


@dataclass(frozen=True)
class Style:
    """`expected` is what its records hold; `uncaptured` says why there are none."""

    name: str
    run: Callable[[Clients], Any]
    expected: tuple[Counts, ...]
    is_further: bool = False
    uncaptured: str = ""

    @property
    def library(self) -> str:
        return self.name.partition(" ")[0]


STYLES: list[Style] = []


def _style(
    name: str, *expected: Counts, further: bool = False, uncaptured: str = ""
) -> Callable[[Callable[[Clients], Any]], Callable[[Clients], Any]]:
    def add(run: Callable[[Clients], Any]) -> Callable[[Clients], Any]:
        STYLES.append(Style(name, run, expected, further, uncaptured))
        return run

    return add


def _both(
    name: str,
    counts: Counts,
    ask: Callable[[Any], Any],
    *,
    client: str = "",
    further: bool = False,
    read: str = "nothing",
) -> None:
    """The same call on the synchronous and on the asynchronous client.

    `read` says how the answer is used up: not at all, as a stream, parsed, parsed as a stream, as
    the helper's own stream, or as a response that is read while it comes.
    """
    library = name.partition(" ")[0]
    chosen = client or library

    def run(clients: Clients) -> None:
        _READERS[read](ask(getattr(clients, chosen)))

    async def run_async(clients: Clients) -> None:
        await _ASYNC_READERS[read](ask(getattr(clients, f"async_{chosen}")))

    _style(name, counts, further=further)(run)
    _style(f"{name}, async", counts, further=further)(run_async)


def _use_up(stream: Any) -> None:
    for _ in stream:
        pass


async def _use_up_async(stream: Any) -> None:
    async for _ in stream:
        pass


def _read_helper(manager: Any) -> None:
    with manager as stream:
        _use_up(stream)


def _read_streaming(manager: Any) -> None:
    with manager as response:
        response.parse()


def _read_streaming_stream(manager: Any) -> None:
    with manager as response:
        _use_up(response.parse())


_READERS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda answer: None,
    "stream": _use_up,
    "parse": lambda response: response.parse(),
    "parse stream": lambda response: _use_up(response.parse()),
    "helper": _read_helper,
    "streaming": _read_streaming,
    "streaming stream": _read_streaming_stream,
}


async def _read_async(answer: Awaitable[Any]) -> None:
    await answer


async def _read_async_stream(answer: Awaitable[Any]) -> None:
    await _use_up_async(await answer)


async def _parse_async(answer: Awaitable[Any]) -> None:
    await _parsed(await answer)


async def _parse_async_stream(answer: Awaitable[Any]) -> None:
    await _use_up_async(await _parsed(await answer))


async def _parsed(response: Any) -> Any:
    """The one kind of raw response parses at once, the other is waited for."""
    parsed = response.parse()
    return await parsed if isinstance(parsed, Awaitable) else parsed


async def _read_async_helper(manager: Any) -> None:
    async with manager as stream:
        await _use_up_async(stream)


async def _read_async_streaming(manager: Any) -> None:
    async with manager as response:
        await _parsed(response)


async def _read_async_streaming_stream(manager: Any) -> None:
    async with manager as response:
        await _use_up_async(await _parsed(response))


_ASYNC_READERS: dict[str, Callable[[Any], Awaitable[None]]] = {
    "nothing": _read_async,
    "stream": _read_async_stream,
    "parse": _parse_async,
    "parse stream": _parse_async_stream,
    "helper": _read_async_helper,
    "streaming": _read_async_streaming,
    "streaming stream": _read_async_streaming_stream,
}


def _model(name: str) -> Any:
    """A type to parse an answer into."""
    import pydantic

    return pydantic.create_model(name)


# OpenAI

_both("openai chat.create", CHAT_COUNTS, lambda c: c.chat.completions.create(**CHAT))
_both(
    "openai chat.create stream",
    CHAT_COUNTS,
    lambda c: c.chat.completions.create(**STREAMED),
    read="stream",
)
_both(
    "openai chat raw",
    CHAT_COUNTS,
    lambda c: c.chat.completions.with_raw_response.create(**CHAT),
    read="parse",
)
_both(
    "openai chat raw stream",
    CHAT_COUNTS,
    lambda c: c.chat.completions.with_raw_response.create(**STREAMED),
    read="parse stream",
)
_both(
    "openai chat streaming response",
    CHAT_COUNTS,
    lambda c: c.chat.completions.with_streaming_response.create(**CHAT),
    read="streaming",
)
_both("openai chat.parse", CHAT_COUNTS, lambda c: _chat(c).parse(**CHAT))
_both(
    "openai chat.stream",
    CHAT_COUNTS,
    lambda c: _chat(c).stream(**{k: v for k, v in STREAMED.items() if k != "stream"}),
    read="helper",
)
_both("openai completions.create", CHAT_COUNTS, lambda c: c.completions.create(**TEXT))
_both(
    "openai completions.create stream",
    CHAT_COUNTS,
    lambda c: c.completions.create(**TEXT, stream=True),
    read="stream",
)
_both("openai responses.create", RESPONSES_COUNTS, lambda c: c.responses.create(**ASKED))
_both(
    "openai responses.create stream",
    RESPONSES_COUNTS,
    lambda c: c.responses.create(**ASKED, stream=True),
    read="stream",
)
_both(
    "openai responses.stream",
    RESPONSES_COUNTS,
    lambda c: c.responses.stream(**ASKED),
    read="helper",
)
_both("openai responses.parse", RESPONSES_COUNTS, lambda c: c.responses.parse(**ASKED))
_both("openai embeddings.create", EMBEDDINGS_COUNTS, lambda c: c.embeddings.create(**EMBEDDED))
_both(
    "openai client.post",
    CHAT_COUNTS,
    lambda c: c.post("/chat/completions", cast_to=object, body=CHAT),
)
_both(
    "openai azure chat.create",
    CHAT_COUNTS,
    lambda c: c.chat.completions.create(**CHAT),
    client="azure",
)


def _chat(client: Any) -> Any:
    """Where a version keeps `parse` and `stream`: under `beta` before they were finished."""
    finished = client.chat.completions
    return finished if hasattr(finished, "parse") else client.beta.chat.completions


@_style(
    "openai chat streaming response, lines",
    uncaptured="the program reads the bytes itself, and nothing ever makes an object of them",
)
def _lines(clients: Clients) -> None:
    with clients.openai.chat.completions.with_streaming_response.create(**CHAT) as response:
        for _ in response.iter_lines():
            pass


_both(
    "openai responses raw",
    RESPONSES_COUNTS,
    lambda c: c.responses.with_raw_response.create(**ASKED),
    read="parse",
    further=True,
)
_both(
    "openai embeddings raw",
    EMBEDDINGS_COUNTS,
    lambda c: c.embeddings.with_raw_response.create(**EMBEDDED),
    read="parse",
    further=True,
)
_both(
    "openai chat streaming response, stream",
    CHAT_COUNTS,
    lambda c: c.chat.completions.with_streaming_response.create(**STREAMED),
    read="streaming stream",
    further=True,
)
_both(
    "openai with_options",
    CHAT_COUNTS,
    lambda c: c.with_options(timeout=5).chat.completions.create(**CHAT),
    further=True,
)
_both(
    "openai images.generate",
    IMAGES_COUNTS,
    lambda c: c.images.generate(model="gpt-image-1", prompt=f"{CANARY} asked"),
    further=True,
)


@_style("openai responses in the background", RESPONSES_COUNTS, further=True)
def _background(clients: Clients) -> None:
    response = clients.openai.responses.create(**ASKED, background=True)
    for _ in range(4):
        clients.openai.responses.retrieve(response.id)


@_style("openai responses asked for again", RESPONSES_COUNTS, further=True)
def _again(clients: Clients) -> None:
    response = clients.openai.responses.create(**ASKED)
    clients.openai.responses.retrieve(response.id)


@_style("openai stream without usage", further=True, uncaptured="the provider sends no usage")
def _no_usage(clients: Clients) -> None:
    _use_up(clients.openai.chat.completions.create(**CHAT, stream=True))


@_style("openai module client", CHAT_COUNTS, further=True)
def _module(clients: Clients) -> None:
    import openai

    openai.api_key, openai.base_url = "sk-canary-7f3a", f"{clients.url}/v1/"
    openai.chat.completions.create(**CHAT)


# Anthropic

_both("anthropic messages.create", MESSAGES_COUNTS, lambda c: c.messages.create(**CLAUDE))
_both(
    "anthropic messages.create stream",
    MESSAGES_COUNTS,
    lambda c: c.messages.create(**CLAUDE, stream=True),
    read="stream",
)
_both(
    "anthropic messages.stream",
    MESSAGES_COUNTS,
    lambda c: c.messages.stream(**CLAUDE),
    read="helper",
)
_both(
    "anthropic messages raw",
    MESSAGES_COUNTS,
    lambda c: c.messages.with_raw_response.create(**CLAUDE),
    read="parse",
)
_both(
    "anthropic messages raw stream",
    MESSAGES_COUNTS,
    lambda c: c.messages.with_raw_response.create(**CLAUDE, stream=True),
    read="parse stream",
)
_both(
    "anthropic messages streaming response",
    MESSAGES_COUNTS,
    lambda c: c.messages.with_streaming_response.create(**CLAUDE),
    read="streaming",
)
_both("anthropic beta.messages.create", MESSAGES_COUNTS, lambda c: c.beta.messages.create(**CLAUDE))
_both(
    "anthropic beta.messages.create stream",
    MESSAGES_COUNTS,
    lambda c: c.beta.messages.create(**CLAUDE, stream=True),
    read="stream",
)
_both(
    "anthropic beta.messages.stream",
    MESSAGES_COUNTS,
    lambda c: c.beta.messages.stream(**CLAUDE),
    read="helper",
)
_both(
    "anthropic client.post",
    MESSAGES_COUNTS,
    lambda c: c.post("/v1/messages", cast_to=object, body=CLAUDE),
)
_both(
    "anthropic bedrock messages.create",
    MESSAGES_COUNTS,
    lambda c: c.messages.create(**BEDROCK),
    client="bedrock",
)
_both(
    "anthropic bedrock messages.create stream",
    MESSAGES_COUNTS,
    lambda c: c.messages.create(**BEDROCK, stream=True),
    client="bedrock",
    read="stream",
)
_both(
    "anthropic vertex messages.create",
    MESSAGES_COUNTS,
    lambda c: c.messages.create(**VERTEX),
    client="vertex",
)
_both(
    "anthropic vertex messages.create stream",
    MESSAGES_COUNTS,
    lambda c: c.messages.create(**VERTEX, stream=True),
    client="vertex",
    read="stream",
    further=True,
)
_both(
    "anthropic messages.parse", MESSAGES_COUNTS, lambda c: c.messages.parse(**CLAUDE), further=True
)
_both(
    "anthropic beta.messages.parse",
    MESSAGES_COUNTS,
    lambda c: c.beta.messages.parse(**CLAUDE),
    further=True,
)
_both(
    "anthropic beta raw",
    MESSAGES_COUNTS,
    lambda c: c.beta.messages.with_raw_response.create(**CLAUDE),
    read="parse",
    further=True,
)


@_style("anthropic count_tokens", further=True, uncaptured="it is free of charge")
def _count_tokens(clients: Clients) -> None:
    clients.anthropic.messages.count_tokens(model="claude-sonnet-4-6", messages=MESSAGES)


@_style("anthropic helper's final message", MESSAGES_COUNTS, further=True)
def _final_message(clients: Clients) -> None:
    with clients.anthropic.messages.stream(**CLAUDE) as stream:
        stream.get_final_message()


@_style("anthropic tool_runner", MESSAGES_COUNTS, further=True)
def _tool_runner(clients: Clients) -> None:
    clients.anthropic.beta.messages.tool_runner(**CLAUDE, tools=[]).until_done()


# Libraries with the same base as the two above

for _library in ("groq", "together"):
    _both(
        f"{_library} chat.create",
        CHAT_COUNTS,
        lambda c: c.chat.completions.create(**CHAT),
        further=True,
    )
    _both(
        f"{_library} chat.create stream",
        CHAT_COUNTS,
        lambda c: c.chat.completions.create(**CHAT, stream=True),
        read="stream",
        further=True,
    )
    _both(
        f"{_library} chat raw",
        CHAT_COUNTS,
        lambda c: c.chat.completions.with_raw_response.create(**CHAT),
        read="parse",
        further=True,
    )
    _both(
        f"{_library} embeddings.create",
        EMBEDDINGS_COUNTS,
        lambda c: c.embeddings.create(**EMBEDDED),
        further=True,
    )
