"""Classes like those of the libraries of Gemini, Mistral and Cohere, hooked as those are."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import httpx2

from tallystick import hooks
from tests.client.provider_stub import CANARY

MODEL: Final = "projects/123456789012/locations/us-central1/publishers/google/models/gemini-2.5-pro"
CHAT: Final = {"model": "mistral-small-latest", "messages": [{"content": CANARY}], "max_tokens": 64}
ASKED: Final[dict[str, Any]] = {"model": MODEL, "contents": CANARY}


def hooked(name: str, **members: Any) -> SimpleNamespace:
    module = ModuleType(name)
    vars(module).update(members)
    hooks._hook_elsewhere(module)
    return SimpleNamespace(**members)


def answer(usage: Any, reason: Any = "STOP", **more: Any) -> Any:
    """Return an answer as the library has it: an object, with names of its own."""
    return SimpleNamespace(
        usage_metadata=usage,
        model_version="gemini-2.5-pro",
        response_id="resp-1",
        candidates=[SimpleNamespace(finish_reason=reason)],
        sdk_http_response=SimpleNamespace(headers={"x-gemini-service-tier": "flex"}, body=None),
        **more,
    )


_API: Final = SimpleNamespace(
    _http_options=SimpleNamespace(base_url="https://llm.example.com:8443/v1")
)


def _items(answer: Any) -> Iterator[Any]:
    for one in answer:
        if isinstance(one, Exception):
            raise one
        yield one


def _models(answer: Any) -> type:
    class Models:
        _api_client = _API

        def _generate_content(self, **asked: Any) -> Any:
            return answer

        def _generate_content_stream(self, **asked: Any) -> Iterator[Any]:
            return _items(answer)

        def _embed_content(self, **asked: Any) -> Any:
            return answer

        def embed_content(self, **asked: Any) -> Any:
            return self._embed_content(**asked)

    return Models


def _async_models(answer: Any) -> type:
    class AsyncModels:
        _api_client = _API

        async def _generate_content(self, **asked: Any) -> Any:
            return answer

        async def _generate_content_stream(self, **asked: Any) -> AsyncIterator[Any]:
            async def stream() -> AsyncIterator[Any]:
                for item in _items(answer):
                    yield item

            return stream()

        async def embed_content(self, **asked: Any) -> Any:
            return answer

    return AsyncModels


def gemini(found: Any) -> Any:
    """Return classes like the library's; an exception as an item of an answer is raised."""
    members = {"Models": _models(found), "AsyncModels": _async_models(found)}
    return hooked("google.genai.models", **members)


def _respond(reply: Any, request: httpx2.Request) -> httpx2.Response:
    if isinstance(reply, list):
        content = b"".join(b"data: %s\n\n" % json.dumps(item).encode() for item in reply)
        content += b"data: [DONE]\n\n"
        headers = {"content-type": "text/event-stream"}
        pieces = [content[at : at + 50] for at in range(0, len(content), 50)]
        return httpx2.Response(200, stream=Pieces(pieces), headers=headers)
    return httpx2.Response(200 if reply else 500, json=reply)


class Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that fails at the piece that is an exception."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in iter(self):
            yield piece


def _clients(answer: Callable[[httpx2.Request], httpx2.Response]) -> tuple[Any, Any]:
    transport = httpx2.MockTransport(answer)
    return httpx2.Client(transport=transport), httpx2.AsyncClient(transport=transport)


URL: Final = "https://api.mistral.ai/v1/chat/completions"


def mistral(reply: Any, name: str = "mistralai.client.basesdk", url: str = URL) -> Any:
    answer = reply if callable(reply) else functools.partial(_respond, reply)
    client, async_client = _clients(answer)

    class BaseSDK:
        def _build_request(self, method: str, request: Any) -> Any:
            return client.build_request(method, url)

        def do_request(self, context: Any, request: Any, stream: bool = False) -> Any:
            return client.send(request, stream=stream)

        async def do_request_async(self, context: Any, request: Any, stream: bool = False) -> Any:
            return await async_client.send(request, stream=stream)

    BaseSDK.__module__ = name
    return hooked(name, BaseSDK=BaseSDK).BaseSDK()


def send(sdk: Any, asked: Any = CHAT, method: str = "POST", **options: Any) -> Any:
    return sdk.do_request(None, sdk._build_request(method, request=asked), **options)


SENT: Final[dict[str, Any]] = {"path": "v2/chat", "method": "POST", "json": {
    "model": "command-a-03-2025", "messages": [], "max_tokens": 64}}  # fmt: skip
ANCIENT: Final = ("POST", "https://api.cohere.com/v1/chat")


def cohere(reply: Any) -> Any:
    answer = reply if callable(reply) else functools.partial(_respond, reply)
    http, async_http = _clients(answer)
    url = "https://api.cohere.com/v2/chat"

    class HttpClient:
        def request(self, *args: Any, **options: Any) -> Any:
            return http.post(url)

        @contextmanager
        def stream(self, *args: Any, **options: Any) -> Iterator[Any]:
            with http.stream("POST", url) as response:
                yield response

    class AsyncHttpClient:
        async def request(self, *args: Any, **options: Any) -> Any:
            return await async_http.post(url)

        @asynccontextmanager
        async def stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            async with async_http.stream("POST", url) as response:
                yield response

    module = "cohere.core.http_client"
    library = hooked(module, HttpClient=HttpClient, AsyncHttpClient=AsyncHttpClient)
    client = library.HttpClient()
    client.asynchronous = library.AsyncHttpClient()
    return client


async def read(sdk: Any) -> bytes:
    request = sdk._build_request("POST", request=CHAT)
    response = await sdk.do_request_async(None, request, stream=True)
    return b"".join([item async for item in response.aiter_bytes()])
