"""Every way in which the providers' libraries let a program make a call: `styles.jsonl` and more.

Each takes clients of a `ProviderStub` server. The first 33 of OpenAI and 26 of Anthropic are
those that other tools were measured with; the further ones are what came up besides.
Plain Python of any version that the client runs on, and of any version of the libraries: what a
version does not have raises `AttributeError`, `TypeError` or `ImportError` before it asks anything.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from tests.client.provider_stub import (
    CANARY,
    CHAT_COUNTS,
    EMBEDDINGS_COUNTS,
    MESSAGES_COUNTS,
    RESPONSES_COUNTS,
)

Counts = tuple[int, int, "int | None", "int | None"]
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
# What the lines of `styles.jsonl` name.
COUNTS: dict[str, Counts] = {
    "chat": CHAT_COUNTS,
    "responses": RESPONSES_COUNTS,
    "embeddings": EMBEDDINGS_COUNTS,
    "images": (50, 4_160, None, None),
    "messages": MESSAGES_COUNTS,
}
BODIES: dict[str, dict[str, Any]] = {
    "chat": CHAT,
    "streamed": STREAMED,
    "text": TEXT,
    "asked": ASKED,
    "embedded": EMBEDDED,
    "image": {"model": "gpt-image-1", "prompt": f"{CANARY} asked"},
    "claude": CLAUDE,
    "bedrock": {**CLAUDE, "model": "us.anthropic.claude-sonnet-4-6-v1:0"},
    "post": {"path": "/chat/completions", "cast_to": object, "body": CHAT},
    "post claude": {"path": "/v1/messages", "cast_to": object, "body": CLAUDE},
}


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
    "options": lambda url: _openai("OpenAI")(url).with_options(timeout=5),
    "async_options": lambda url: _openai("AsyncOpenAI")(url).with_options(timeout=5),
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


def read(answer: Any, *steps: str) -> None:
    """Use an answer up: `enter` it, `parse` it, `iterate` over it, or nothing of all this."""
    if not steps:
        return
    step, *rest = steps
    if step == "enter":
        with answer as entered:
            read(entered, *rest)
    elif step == "parse":
        read(answer.parse(), *rest)
    else:
        for _ in answer:
            pass


async def read_async(answer: Any, *steps: str) -> None:
    """Do the same where each step may have to be waited for."""
    answer = await answer if isinstance(answer, Awaitable) else answer
    if not steps:
        return
    step, *rest = steps
    if step == "enter":
        async with answer as entered:
            await read_async(entered, *rest)
    elif step == "parse":
        await read_async(answer.parse(), *rest)
    else:
        async for _ in answer:
            pass


def _both(
    name: str,
    counts: str,
    call: str,
    asked: str,
    *,
    client: str = "",
    further: bool = False,
    read_by: str = "",
    more: Mapping[str, Any] | None = None,
) -> None:
    """The same call on the synchronous and on the asynchronous client, and how it is used up."""
    chosen = client or name.partition(" ")[0]
    sent = {**BODIES[asked], **(more or {})}

    def ask(client: Any) -> Any:
        try:
            method = attrgetter(call)(client)
        except AttributeError:  # Versions keep some under `beta` before they are finished.
            method = attrgetter(f"beta.{call}")(client)
        return method(**sent)

    def run(clients: Clients) -> None:
        read(ask(getattr(clients, chosen)), *read_by.split())

    async def run_async(clients: Clients) -> None:
        await read_async(ask(getattr(clients, f"async_{chosen}")), *read_by.split())

    _style(name, COUNTS[counts], further=further)(run)
    _style(f"{name}, async", COUNTS[counts], further=further)(run_async)


for _line in Path(__file__).with_suffix(".jsonl").read_text().splitlines():
    _both(**json.loads(_line))


@_style(
    "openai chat streaming response, lines",
    uncaptured="the program reads the bytes itself, and nothing ever makes an object of them",
)
def _lines(clients: Clients) -> None:
    with clients.openai.chat.completions.with_streaming_response.create(**CHAT) as response:
        for _ in response.iter_lines():
            pass


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
    read(clients.openai.chat.completions.create(**CHAT, stream=True), "iterate")


@_style("openai module client", CHAT_COUNTS, further=True)
def _module(clients: Clients) -> None:
    import openai

    openai.api_key, openai.base_url = "sk-canary-7f3a", f"{clients.url}/v1/"
    openai.chat.completions.create(**CHAT)


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
