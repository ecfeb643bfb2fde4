"""Calls of every kind, each as a function that gives what its caller sees; no server is needed."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import pytest
import wrapt

from tallystick import capture, ending, hooks
from tallystick.hooks import bedrock, streams
from tests.client import offline, provider_stub
from tests.client.providers import answers, lookalikes
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


def _chunk(counts: Any, **choice: Any) -> Any:
    said = {"index": 0, "delta": {"content": "x"}, "finish_reason": None, **choice}
    named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return ("", {**named, "choices": [said], "usage": counts})


_SO_FAR: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _tell_always(request: Any) -> Any:
    return offline.stream([_chunk(_SO_FAR), _chunk(_SO_FAR)])


def _tell_in_a_choice(request: Any) -> Any:
    return offline.stream([_chunk(None), _chunk(None, finish_reason="stop", usage=_SO_FAR)])


def _told_with_choices() -> Any:
    clients = map(offline.openai_client, (_tell_always, _tell_in_a_choice))
    return [list(client.chat.completions.create(**STREAMED)) for client in clients]


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


def _advised(_request: httpx2.Request) -> httpx2.Response:
    """A message that another model advised, with a number that nobody knows."""
    advice = {"type": "advisor_message", "model": "claude-opus-4-7", "output_tokens": 9}
    own = {"type": "message", "input_tokens": 12, "output_tokens": 7}
    steps = [own, {**advice, "input_tokens": 30}]
    message = provider_stub.message()
    usage = {**message["usage"], "iterations": steps, "new_tokens": 5}
    return httpx2.Response(200, json={**message, "usage": usage})


def _with_advice() -> Any:
    return offline.anthropic_client(_advised).messages.create(**CLAUDE)


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


# Hooks of ours that are imported with the libraries that they are for; here, before all calls.
FURTHER: Final = ("gemini", "mistral", "cohere", "responses")
for _name in FURTHER:
    importlib.import_module(f"tallystick.hooks.{_name}")


@cache
def _further() -> tuple[Any, ...]:
    """Return objects of classes like those of the libraries of Gemini, Mistral and Cohere."""
    part, whole = lookalikes.answer(answers.TOOL_USAGE, None), lookalikes.answer(_MODALITIES)
    library = lookalikes.gemini([part, whole])
    other = lookalikes.hooked("google.genai._api_client", BaseApiClient=_Api).BaseApiClient()
    return library, lookalikes.gemini(whole), other


_MODALITIES = {
    **answers.CACHED_USAGE,
    "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}],
    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 3}],
}


class _Api:
    def request(self, method: str, path: str) -> str:
        return path

    async def async_request(self, method: str, path: str) -> str:
        return path


def _gemini() -> Any:
    streams, whole, _ = _further()
    asked: dict[str, Any] = {"model": "models/m", "contents": "x", "config": {}}
    found = whole.Models()._generate_content(**asked).response_id
    chunks = list(streams.Models()._generate_content_stream(**asked))
    return found, len(chunks), whole.Models().embed_content(**asked).response_id


def _async_gemini() -> Any:
    streams, whole, _ = _further()

    async def ask() -> Any:
        chunks = await streams.AsyncModels()._generate_content_stream(model="m")
        found = await whole.AsyncModels()._generate_content(model="m", contents="x")
        return len([chunk async for chunk in chunks]), found.response_id

    return asyncio.run(ask())


@cache
def _models() -> list[Any]:
    """Return models of two kinds of embeddings, and one whose answer is as it came."""
    each = SimpleNamespace(statistics=SimpleNamespace(token_count=6.0))
    body = json.dumps(answers.content(answers.TOOL_USAGE, "STOP"))
    found = (
        SimpleNamespace(embeddings=[each, each]),
        SimpleNamespace(usage_metadata={"promptTokenCount": 3}),
        SimpleNamespace(sdk_http_response=SimpleNamespace(headers={}, body=body)),
    )
    return [lookalikes.gemini(one).Models() for one in found]


def _embedded() -> Any:
    each, counted, raw = _models()
    vectors = len(each.embed_content(model="m", contents="x").embeddings)
    counted.embed_content(model="m", contents="x")
    return vectors, len(raw._generate_content(model="m").sdk_http_response.body)


def _posted() -> Any:
    api = _further()[2]
    return api.request("post", "models/m:countTokens"), asyncio.run(
        api.async_request("post", "models/m:generateContent")
    )


_LONG = {**answers.completion(), "data": [0.015625] * 20_000}


@cache
def _sdks() -> list[Any]:
    talk, deed = (answers.reply(path, {}) for path in ("/mistral/conversations",
                                                       "/google/interactions"))  # fmt: skip
    assert talk is not None
    assert deed is not None
    url, name = "https://api.mistral.ai/v1/conversations", "google.genai._gaos.basesdk"
    return [
        lookalikes.mistral(answers.completion()),
        lookalikes.mistral(_LONG),
        lookalikes.mistral(answers.chunks()),
        lookalikes.mistral(talk[0], url=url),
        lookalikes.mistral(deed[0], name, "https://x.example/interactions"),
        lookalikes.mistral(answers.completion(), "mistralai.azure.client.basesdk"),
    ]


def _mistral() -> Any:
    plain, long, streamed = _sdks()[:3]
    ids = [lookalikes.send(sdk).json()["id"] for sdk in (plain, long)]
    events = len(b"".join(lookalikes.send(streamed, stream=True).iter_bytes()))
    return ids, events, asyncio.run(lookalikes.read(streamed))


def _conversed() -> Any:
    """Conversations with connectors, and interactions, which Google's library makes."""
    talk, deed, azure = _sdks()[3:]
    found = lookalikes.send(talk, {"body": {"model": "m"}})
    return found.json(), lookalikes.send(deed, {}).json(), lookalikes.send(azure).json()


def _number_chunks(request: Any) -> Any:
    events = provider_stub.chat_events(with_usage=True)
    return offline.stream([(name, {**event, "id": "7"}) for name, event in events])


def _unnamed() -> Any:
    """Only the headers have an ID by which others know the call."""
    return list(offline.openai_client(_number_chunks).chat.completions.create(**STREAMED))


@cache
def _coheres() -> tuple[Any, Any]:
    cached = {**answers.second(), "usage": {**answers.BILLED, "cached_tokens": 64}}
    return lookalikes.cohere(cached), lookalikes.cohere(answers.document("second_events"))


def _cohere() -> Any:
    (client, streamed), sent = _coheres(), lookalikes.SENT
    plain = client.request(**sent).json()["id"], client.request(*lookalikes.ANCIENT).status_code

    async def ask() -> Any:
        found = (await client.asynchronous.request(**sent)).json()
        async with streamed.asynchronous.stream(**sent) as response:
            return len([line async for line in response.aiter_lines()]), found["id"]

    with streamed.stream(**sent) as response:
        return plain, len(list(response.iter_lines())), asyncio.run(ask())


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
    _told_with_choices,
    _iterator,
    _bedrock,
    _middleware,
    _message,
    _with_advice,
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
    _gemini,
    _async_gemini,
    _embedded,
    _posted,
    _mistral,
    _conversed,
    _cohere,
    _unnamed,
)
