"""Every way in which the libraries of Gemini, Mistral and Cohere let a program make a call."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

from tests.client.provider_stub import CANARY
from tests.client.providers.answers import (
    BILLED_COUNTS,
    CACHED_COUNTS,
    CHAT_COUNTS,
    CONNECTOR_COUNTS,
    INTERACTION_COUNTS,
    TOOL_COUNTS,
)
from tests.client.styles import Counts, Style

ASKED = f"{CANARY} asked"
MESSAGES = [{"role": "user", "content": ASKED}]
KEY = "sk-canary-7f3a"
CONTENT: dict[str, Any] = {"model": "gemini-2.5-flash", "contents": ASKED,
                           "config": {"max_output_tokens": 64}}  # fmt: skip
CHAT: dict[str, Any] = {"model": "mistral-small-latest", "messages": MESSAGES, "max_tokens": 64}
FIM: dict[str, Any] = {"model": "codestral-latest", "prompt": ASKED, "max_tokens": 64}
AGENT: dict[str, Any] = {"agent_id": "ag_1", "messages": MESSAGES, "max_tokens": 64}
TALK: dict[str, Any] = {"model": "mistral-medium-latest", "inputs": ASKED}
FIRST: dict[str, Any] = {"model": "command-r-plus", "message": ASKED, "max_tokens": 64}
SECOND: dict[str, Any] = {"model": "command-a-03-2025", "messages": MESSAGES, "max_tokens": 64}
EMBED: dict[str, Any] = {"model": "embed-v4.0", "texts": [ASKED], "input_type": "search_query"}
RERANK: dict[str, Any] = {"model": "rerank-v3.5", "query": ASKED, "documents": [ASKED]}
EMBED_2 = {**EMBED, "embedding_types": ["float"]}


class Clients:
    """Made on demand, each once; `url` is the providers' server."""

    def __init__(self, url: str) -> None:
        self.url = url

    @cached_property
    def google(self) -> Any:
        return self._genai(api_key=KEY)

    @cached_property
    def vertex(self) -> Any:
        oauth = importlib.import_module("google.oauth2.credentials")
        credentials = oauth.Credentials(KEY)
        place = {"project": "123456789012", "location": "us-central1"}
        return self._genai(vertexai=True, credentials=credentials, **place)

    def _genai(self, **options: Any) -> Any:
        http_options = {"base_url": f"{self.url}/google"}
        return importlib.import_module("google.genai").Client(http_options=http_options, **options)

    @cached_property
    def mistral(self) -> Any:
        """Of the second version on, the class is in a module of its own."""
        module = importlib.import_module("mistralai")
        if not hasattr(module, "Mistral"):
            module = importlib.import_module("mistralai.client")
        return module.Mistral(api_key=KEY, server_url=f"{self.url}/mistral")

    def _cohere(self, name: str) -> Any:
        kind = getattr(importlib.import_module("cohere"), name)
        return kind(KEY, base_url=f"{self.url}/cohere")

    @cached_property
    def cohere(self) -> Any:
        return self._cohere("Client")

    @cached_property
    def async_cohere(self) -> Any:
        return self._cohere("AsyncClient")

    @cached_property
    def cohere_2(self) -> Any:
        return self._cohere("ClientV2")

    @cached_property
    def async_cohere_2(self) -> Any:
        return self._cohere("AsyncClientV2")


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]


async def _all_of(coroutine: Any) -> list[Any]:
    return await _all(await coroutine)


async def _first_of(coroutine: Any) -> None:
    """Leave a stream; the event loop closes it in its next rounds."""
    async for _ in await coroutine:
        break
    await asyncio.sleep(0.01)


def _embed_many(clients: Clients) -> Any:
    """An answer of more than 64 KB, of which only the end is looked at."""
    return clients.mistral.embeddings.create(model="mistral-embed", inputs=["many"])


def _with_tools(clients: Clients) -> Any:
    config = {"max_output_tokens": 64, "tools": [{"url_context": {}}]}
    return clients.google.models.generate_content(**{**CONTENT, "config": config})


def _as_it_came(clients: Clients) -> Any:
    config = {"max_output_tokens": 64, "should_return_http_response": True}
    answer = clients.google.models.generate_content(**{**CONTENT, "config": config})
    assert json.loads(answer.sdk_http_response.body)["usageMetadata"]


def _chat(client: Any) -> Any:
    return client.chats.create(model="gemini-2.5-flash", config={"max_output_tokens": 64})


def _style(name: str, run: Callable[[Clients], Any], *expected: Counts, reason: str = "") -> Style:
    return Style(name, cast("Callable[[Any], Any]", run), expected, uncaptured=reason)


SEARCH_COUNTS = (0, 0, None, None)  # and a unit of a search
_NONE = "no tokens are billed"
STYLES: tuple[Style, ...] = (
    _style("google content", lambda c: c.google.models.generate_content(**CONTENT), CACHED_COUNTS),
    _style("google content with tools", _with_tools, TOOL_COUNTS),
    _style("google content as it came", _as_it_came, CACHED_COUNTS),
    _style(
        "google content stream",
        lambda c: list(c.google.models.generate_content_stream(**CONTENT)),
        CACHED_COUNTS,
    ),
    _style(
        "google content stream, left",
        lambda c: next(iter(c.google.models.generate_content_stream(**CONTENT))) and None,
        (696_219, 0, None, None),
    ),
    _style(
        "google content, async",
        lambda c: c.google.aio.models.generate_content(**CONTENT),
        CACHED_COUNTS,
    ),
    _style(
        "google content stream, async",
        lambda c: _all_of(c.google.aio.models.generate_content_stream(**CONTENT)),
        CACHED_COUNTS,
    ),
    _style(
        "google content stream, async, left",
        lambda c: _first_of(c.google.aio.models.generate_content_stream(**CONTENT)),
        (696_219, 0, None, None),
    ),
    _style("google chat", lambda c: _chat(c.google).send_message(ASKED), CACHED_COUNTS),
    _style(
        "google chat stream",
        lambda c: list(_chat(c.google).send_message_stream(ASKED)),
        CACHED_COUNTS,
    ),
    _style("google chat, async", lambda c: _chat(c.google.aio).send_message(ASKED), CACHED_COUNTS),
    _style(
        "google chat stream, async",
        lambda c: _all_of(_chat(c.google.aio).send_message_stream(ASKED)),
        CACHED_COUNTS,
    ),
    _style(
        "google embeddings",
        lambda c: c.google.models.embed_content(model="gemini-embedding-001", contents=ASKED),
        (9, 0, None, None),
    ),
    _style(
        "google embeddings, async",
        lambda c: c.google.aio.models.embed_content(model="gemini-embedding-001", contents=ASKED),
        (9, 0, None, None),
    ),
    _style(
        "google vertex content",
        lambda c: c.vertex.models.generate_content(**CONTENT),
        CACHED_COUNTS,
    ),
    _style(
        "google vertex content stream",
        lambda c: list(c.vertex.models.generate_content_stream(**CONTENT)),
        CACHED_COUNTS,
    ),
    _style(
        "google vertex embeddings",
        lambda c: c.vertex.models.embed_content(model="text-embedding-005", contents=[ASKED] * 2),
        (12, 0, None, None),
    ),
    _style(
        "google interactions",
        lambda c: c.google.interactions.create(model="gemini-2.5-flash", input=ASKED),
        INTERACTION_COUNTS,
    ),
    _style(
        "google interactions stream",
        lambda c: list(
            c.google.interactions.create(model="gemini-2.5-flash", input=ASKED, stream=True)
        ),
        INTERACTION_COUNTS,
    ),
    _style(
        "google interactions, async",
        lambda c: c.google.aio.interactions.create(model="gemini-2.5-flash", input=ASKED),
        INTERACTION_COUNTS,
    ),
    _style(
        "google batch",
        lambda c: c.google.batches.get(name="batches/b1"),
        *[CACHED_COUNTS, CACHED_COUNTS],
    ),
    _style(
        "google batch, async",
        lambda c: c.google.aio.batches.get(name="batches/b2"),
        *[CACHED_COUNTS, CACHED_COUNTS],
    ),
    _style(
        "google countTokens",
        lambda c: c.google.models.count_tokens(model="gemini-2.5-flash", contents=ASKED),
        reason=_NONE,
    ),
    _style(
        "google countTokens, async",
        lambda c: c.google.aio.models.count_tokens(model="gemini-2.5-flash", contents=ASKED),
        reason=_NONE,
    ),
    _style("mistral chat", lambda c: c.mistral.chat.complete(**CHAT), CHAT_COUNTS),
    _style("mistral chat stream", lambda c: list(c.mistral.chat.stream(**CHAT)), CHAT_COUNTS),
    _style("mistral chat, async", lambda c: c.mistral.chat.complete_async(**CHAT), CHAT_COUNTS),
    _style(
        "mistral chat stream, async",
        lambda c: _all_of(c.mistral.chat.stream_async(**CHAT)),
        CHAT_COUNTS,
    ),
    _style("mistral fim", lambda c: c.mistral.fim.complete(**FIM), CHAT_COUNTS),
    _style("mistral fim stream", lambda c: list(c.mistral.fim.stream(**FIM)), CHAT_COUNTS),
    _style("mistral fim, async", lambda c: c.mistral.fim.complete_async(**FIM), CHAT_COUNTS),
    _style("mistral agents", lambda c: c.mistral.agents.complete(**AGENT), CHAT_COUNTS),
    _style("mistral agents stream", lambda c: list(c.mistral.agents.stream(**AGENT)), CHAT_COUNTS),
    _style(
        "mistral agents stream, async",
        lambda c: _all_of(c.mistral.agents.stream_async(**AGENT)),
        CHAT_COUNTS,
    ),
    _style(
        "mistral conversations",
        lambda c: c.mistral.beta.conversations.start(**TALK),
        CONNECTOR_COUNTS,
    ),
    _style(
        "mistral conversations append",
        lambda c: c.mistral.beta.conversations.append(conversation_id="conv_1", inputs=ASKED),
        CONNECTOR_COUNTS,
    ),
    _style(
        "mistral conversations stream",
        lambda c: list(c.mistral.beta.conversations.start_stream(**TALK)),
        CONNECTOR_COUNTS,
    ),
    _style(
        "mistral embeddings",
        lambda c: c.mistral.embeddings.create(model="mistral-embed", inputs=[ASKED]),
        (15, 0, None, None),
    ),
    _style("mistral embeddings, long", _embed_many, (15, 0, None, None)),
    _style(
        "mistral embeddings, async",
        lambda c: c.mistral.embeddings.create_async(model="mistral-embed", inputs=[ASKED]),
        (15, 0, None, None),
    ),
    _style(
        "mistral moderations",
        lambda c: c.mistral.classifiers.moderate(model="mistral-moderation-2411", inputs=[ASKED]),
        reason=_NONE,
    ),
    _style("cohere chat", lambda c: c.cohere.chat(**FIRST), BILLED_COUNTS),
    _style("cohere chat stream", lambda c: list(c.cohere.chat_stream(**FIRST)), BILLED_COUNTS),
    _style("cohere chat, async", lambda c: c.async_cohere.chat(**FIRST), BILLED_COUNTS),
    _style(
        "cohere chat stream, async",
        lambda c: _all(c.async_cohere.chat_stream(**FIRST)),
        BILLED_COUNTS,
    ),
    _style("cohere embeddings", lambda c: c.cohere.embed(**EMBED), (2, 0, None, None)),
    _style("cohere rerank", lambda c: c.cohere.rerank(**RERANK), SEARCH_COUNTS),
    _style("cohere 2 chat", lambda c: c.cohere_2.chat(**SECOND), BILLED_COUNTS),
    _style("cohere 2 chat raw", lambda c: c.cohere_2.with_raw_response.chat(**SECOND).data and None,
           BILLED_COUNTS),
    _style("cohere 2 chat stream", lambda c: list(c.cohere_2.chat_stream(**SECOND)), BILLED_COUNTS),
    _style("cohere 2 chat, async", lambda c: c.async_cohere_2.chat(**SECOND), BILLED_COUNTS),
    _style(
        "cohere 2 chat stream, async",
        lambda c: _all(c.async_cohere_2.chat_stream(**SECOND)),
        BILLED_COUNTS,
    ),
    _style("cohere 2 embeddings", lambda c: c.cohere_2.embed(**EMBED_2), (2, 0, None, None)),
    _style(
        "cohere 2 embeddings, async",
        lambda c: c.async_cohere_2.embed(**EMBED_2),
        (2, 0, None, None),
    ),
    _style("cohere 2 rerank", lambda c: c.cohere_2.rerank(**RERANK), SEARCH_COUNTS),
    _style("cohere 2 rerank, async", lambda c: c.async_cohere_2.rerank(**RERANK), SEARCH_COUNTS),
)  # fmt: skip
