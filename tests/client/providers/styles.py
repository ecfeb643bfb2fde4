"""Every way in which the libraries of Gemini, Mistral and Cohere let a program make a call.

Most are lines of `styles.jsonl`, which name the client, what it calls, and what is sent.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from tests.client.provider_stub import CANARY
from tests.client.providers.answers import (
    BILLED_COUNTS,
    CACHED_COUNTS,
    CHAT_COUNTS,
    CONNECTOR_COUNTS,
    INTERACTION_COUNTS,
    TOOL_COUNTS,
)
from tests.client.styles import Counts, Style, read, read_async

ASKED = f"{CANARY} asked"
MESSAGES = [{"role": "user", "content": ASKED}]
KEY = "sk-canary-7f3a"
GEMINI = "gemini-2.5-flash"
LIMITED: dict[str, Any] = {"max_output_tokens": 64}
CONTENT: dict[str, Any] = {"model": GEMINI, "contents": ASKED, "config": LIMITED}
SECOND: dict[str, Any] = {"model": "command-a-03-2025", "messages": MESSAGES, "max_tokens": 64}
EMBED: dict[str, Any] = {"model": "embed-v4.0", "texts": [ASKED], "input_type": "search_query"}
BODIES: dict[str, dict[str, Any]] = {
    "content": CONTENT,
    "tools": {**CONTENT, "config": {**LIMITED, "tools": [{"url_context": {}}]}},
    "said": {"message": ASKED},
    "chat": {"model": "mistral-small-latest", "messages": MESSAGES, "max_tokens": 64},
    "fim": {"model": "codestral-latest", "prompt": ASKED, "max_tokens": 64},
    "agent": {"agent_id": "ag_1", "messages": MESSAGES, "max_tokens": 64},
    "talk": {"model": "mistral-medium-latest", "inputs": ASKED},
    "first": {"model": "command-r-plus", "message": ASKED, "max_tokens": 64},
    "second": SECOND,
    "embed": EMBED,
    "embed 2": {**EMBED, "embedding_types": ["float"]},
    "rerank": {"model": "rerank-v3.5", "query": ASKED, "documents": [ASKED]},
}
COUNTS: dict[str, Counts] = {
    "cached": CACHED_COUNTS,
    "tool": TOOL_COUNTS,
    "interaction": INTERACTION_COUNTS,
    "chat": CHAT_COUNTS,
    "connector": CONNECTOR_COUNTS,
    "billed": BILLED_COUNTS,
}


class Clients:
    """Made on demand, each once; `url` is the providers' server."""

    def __init__(self, url: str) -> None:
        self.url = url

    @cached_property
    def google(self) -> Any:
        return self._genai(api_key=KEY)

    @property
    def google_chat(self) -> Any:
        return self.google.chats.create(model=GEMINI, config=LIMITED)

    @property
    def google_chat_async(self) -> Any:
        return self.google.aio.chats.create(model=GEMINI, config=LIMITED)

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


async def _leave_async(clients: Any) -> None:
    """The event loop closes the stream in its next rounds."""
    async for _ in await clients.google.aio.models.generate_content_stream(**CONTENT):
        break
    await asyncio.sleep(0.01)


def _as_it_came(clients: Any) -> Any:
    config = {**LIMITED, "should_return_http_response": True}
    answer = clients.google.models.generate_content(**{**CONTENT, "config": config})
    assert json.loads(answer.sdk_http_response.body)["usageMetadata"]


def _style(row: dict[str, Any]) -> Style:
    """Return the style of a line; each of its counts is a name of `COUNTS` or numbers."""
    name: str = row["name"]

    def run(clients: Any) -> Any:
        method = attrgetter(row["call"])(getattr(clients, row["client"]))
        answer = method(**(row.get("given") or BODIES[row["asked"]]))
        use_up = read_async if "async" in name else read
        return use_up(answer, *row.get("read_by", "").split())

    expected = [COUNTS[each] if isinstance(each, str) else tuple(each) for each in row["counts"]]
    return Style(name, run, tuple(expected), uncaptured=row.get("uncaptured", ""))


STYLES: tuple[Style, ...] = (
    *map(_style, map(json.loads, Path(__file__).with_suffix(".jsonl").read_text().splitlines())),
    Style("google content as it came", _as_it_came, (CACHED_COUNTS,)),
    Style(
        "google content stream, left",
        lambda c: next(iter(c.google.models.generate_content_stream(**CONTENT))) and None,
        ((696_219, 0, None, None),),
    ),
    Style("google content stream, async, left", _leave_async, ((696_219, 0, None, None),)),
    Style(
        "cohere 2 chat raw",
        lambda c: c.cohere_2.with_raw_response.chat(**SECOND).data and None,
        (BILLED_COUNTS,),
    ),
)
