"""Calls of every kind, each as a function that gives what its caller sees; no server is needed."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import httpx2
import pytest
import wrapt

from tallystick import capture, ending, hooks
from tallystick.hooks import bedrock, streams
from tests.client import offline, provider_stub
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED
from tests.lazily import anthropic, openai


def _plain() -> Any:
    return offline.openai_client().chat.completions.create(**CHAT)


def _embedding() -> Any:
    return offline.openai_client().embeddings.create(model="m", input=["a", "b"])


def _stream() -> Any:
    return list(offline.openai_client().chat.completions.create(**STREAMED))


def _abandoned() -> Any:
    with offline.anthropic_client().messages.create(**CLAUDE, stream=True) as stream:
        first = next(stream)
    del stream
    return first


def _raw() -> Any:
    response = offline.openai_client().responses.with_raw_response.create(**ASKED)
    return response.parse()


def _background() -> Any:
    client = offline.openai_client()
    client.responses.cancel("resp_bg1")
    return client.responses.retrieve("resp_bg1")


def _queue(request: Any) -> Any:
    return offline.say(provider_stub.response("resp_bg2", "queued"))


def _queued() -> Any:
    """Asked for in the background, and looked at before it is done."""
    client = offline.openai_client(_queue)
    client.responses.create(**ASKED, background=True)
    return [client.responses.retrieve("resp_bg2").status for _ in range(2)]


def _tell_nothing(request: Any) -> Any:
    return offline.stream(provider_stub.chat_events(with_usage=False))


def _tell_nonsense(request: Any) -> Any:
    return offline.say({**provider_stub.completion(), "usage": "much"})


def _untold() -> Any:
    told = offline.openai_client(_tell_nonsense).chat.completions.create(**CHAT)
    return told, list(offline.openai_client(_tell_nothing).chat.completions.create(**STREAMED))


def _looked_up() -> Any:
    return offline.openai_client().get("/models", cast_to=object)


@cache
def _counted() -> type[openai.Stream[dict[str, Any]]]:
    """Return a kind of stream whose iterator is no generator."""

    class Counted(openai.Stream[dict[str, Any]]):
        def __stream__(self) -> Iterator[dict[str, Any]]:
            return map(dict, super().__stream__())

    return Counted


def _iterator() -> Any:
    asked: dict[str, Any] = {"body": STREAMED, "stream": True, "stream_cls": _counted()}
    return list(offline.openai_client().post("/chat/completions", cast_to=object, **asked))


def _bedrock() -> Any:
    class AnthropicBedrock(anthropic.Anthropic):
        pass

    client = AnthropicBedrock(api_key="k", http_client=offline.anthropic_client()._client)
    return client.messages.create(**CLAUDE)


def _left() -> Any:
    for item in offline.openai_client().chat.completions.create(**STREAMED):  # noqa: B007
        break
    return item


def _break_off(request: Any) -> Any:
    error = {"type": "error", "error": {"type": "overloaded_error"}}
    return offline.stream([*provider_stub.messages_events()[:5], ("error", error)])


def _broken_off() -> Any:
    items: list[Any] = []
    with pytest.raises(anthropic.APIStatusError) as raised:
        items.extend(offline.anthropic_client(_break_off).messages.create(**CLAUDE, stream=True))
    return items, str(raised.value)


def _by_hand() -> Any:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    items = []
    while (item := next(stream, None)) is not None:
        items.append(item)
    return items


def _mappings() -> Any:
    kind = openai.Stream[dict[str, Any]]
    asked: dict[str, Any] = {"stream": True, "stream_cls": kind, "cast_to": object}
    client = offline.openai_client()
    chunks = client.post("/chat/completions", body=STREAMED, **asked)
    events = client.post("/responses", body={**ASKED, "stream": True}, **asked)
    return list(chunks), list(events)


def _async_mappings() -> Any:
    kind = openai.AsyncStream[dict[str, Any]]
    asked: dict[str, Any] = {"stream": True, "stream_cls": kind, "cast_to": object}

    async def ask() -> Any:
        client = offline.async_openai_client()
        chunks = await client.post("/chat/completions", body=STREAMED, **asked)
        events = await client.post("/responses", body={**ASKED, "stream": True}, **asked)
        return [item async for item in chunks], [item async for item in events]

    return asyncio.run(ask())


def _parse_early(request: Any, call_next: Any) -> Any:
    response = call_next(request)
    response.parse()
    return response


def _middleware() -> Any:
    http = offline.anthropic_client()._client
    client = anthropic.Anthropic(api_key="k", http_client=http, middleware=[_parse_early])
    return client.messages.with_raw_response.create(**CLAUDE).parse()


def _message() -> Any:
    with offline.anthropic_client().messages.stream(**CLAUDE) as stream:
        return stream.get_final_message()


def _async_plain() -> Any:
    async def ask() -> Any:
        return await offline.async_anthropic_client().messages.create(**CLAUDE)

    return asyncio.run(ask())


def _async_stream() -> Any:
    async def ask() -> Any:
        stream = await offline.async_openai_client().chat.completions.create(**STREAMED)
        items = [item async for item in stream]
        await stream.close()
        return items

    return asyncio.run(ask())


def _async_events() -> Any:
    async def ask() -> Any:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)
        return [item async for item in stream]

    return asyncio.run(ask())


def _fail(request: Any) -> Any:
    return httpx2.Response(500)


def _failing() -> Any:
    client = offline.openai_client(_fail)
    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**CHAT)
    return str(raised.value)


def _import() -> Any:
    """As in a program that imports a library after `init()`."""
    before = {name: module for name, module in sys.modules.items() if _is_openai_stream(name)}
    for name in before:
        del sys.modules[name]
    try:
        return importlib.import_module("openai._streaming").__name__
    finally:
        sys.modules.update(before)


def _is_openai_stream(name: str) -> bool:
    return name == "openai._streaming"


def _rejected() -> Any:
    """The model of an answer that its parser rejects."""
    client = offline.openai_client(_cut_off)
    with pytest.raises(openai.LengthFinishReasonError) as raised:
        client.chat.completions.parse(**CHAT)
    return raised.value.completion.model


def _cut_off(request: Any) -> Any:
    whole = provider_stub.completion()
    whole["choices"][0]["finish_reason"] = "length"
    return offline.say(whole)


def _unparsed() -> Any:
    chat = offline.openai_client().chat.completions.with_raw_response
    texts = chat.create(**CHAT).text, chat.create(**STREAMED).http_response.read()
    kept = chat.create(**CHAT)
    assert capture.active is not None
    ending.count_read_responses(capture.active)
    return texts, kept.content


@cache
def _nested() -> tuple[Any, Any, Any]:
    """Return clients of classes with a `request` of their own."""

    class Own(openai.OpenAI):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            return super().request(*args, **kwargs)

    class Proxied(openai.OpenAI):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            return wrapt.ObjectProxy(super().request(*args, **kwargs))

    class AsyncOwn(openai.AsyncOpenAI):
        async def request(self, *args: Any, **kwargs: Any) -> Any:
            return await super().request(*args, **kwargs)

    hooks._hook_module(openai._base_client)
    http, async_http = offline.openai_client()._client, offline.async_openai_client()._client
    own, proxied = (kind(api_key="k", http_client=http) for kind in (Own, Proxied))
    return own, proxied, AsyncOwn(api_key="k", http_client=async_http)


def _own_request() -> Any:
    return _nested()[0].chat.completions.create(**CHAT)


def _proxied() -> Any:
    return _nested()[1].chat.completions.create(**CHAT).model


def _own_async_request() -> Any:
    return asyncio.run(_nested()[2].chat.completions.create(**CHAT))


class _Bedrock:
    """A client of botocore, without its imports."""

    def _make_api_call(self, operation_name: str, api_params: Any) -> Any:
        usage = {"inputTokens": 1, "outputTokens": 2}
        return {"ResponseMetadata": {"RequestId": "req_1"}, "usage": usage}


class _Helper:
    """As those of older libraries make a second stream of the same response."""

    def __init__(self, stream: Any) -> None:
        options = {"cast_to": stream._cast_to, "client": stream._client}
        self._raw_stream = type(stream)(response=stream.response, **options)


@cache
def _hook() -> None:
    hooks._hook(_Helper, "__init__", functools.partial(streams.wrap_helper, "anthropic"))
    hooks._hook(_Bedrock, "_make_api_call", bedrock.wrap_api_call)


def _helped() -> Any:
    _hook()
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    return list(_Helper(stream)._raw_stream)


def _converse() -> Any:
    _hook()
    return _Bedrock()._make_api_call("Converse", {"modelId": "m"})


CALLS: Final = (
    _plain,
    _embedding,
    _stream,
    _abandoned,
    _raw,
    _background,
    _queued,
    _untold,
    _looked_up,
    _left,
    _broken_off,
    _by_hand,
    _mappings,
    _async_mappings,
    _iterator,
    _bedrock,
    _middleware,
    _message,
    _async_plain,
    _async_stream,
    _async_events,
    _failing,
    _import,
    _rejected,
    _unparsed,
    _own_request,
    _own_async_request,
    _proxied,
    _converse,
    _helped,
)
