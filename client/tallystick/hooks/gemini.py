"""Calls of Gemini, through its API or Vertex AI: contents, their streams, embeddings.

Chats, automatic function calls and retries all end in the methods hooked here. What else the
library posts goes through its client's `request` and is only counted as not captured.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable

from tallystick import capture
from tallystick.calls import Call, begin_elsewhere
from tallystick.capture import note_fault
from tallystick.reading.documents import id_or_none, read_document
from tallystick.reading.providers import provider_at
from tallystick.reading.usage.reader import count_of, members_of

_CONTENT, _EMBEDDINGS = "generateContent", "embeddings"
_HOOKED = (
    *("generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents"),
    # Beginning a batch is no call; its answers count, or are missed, when the program gets them.
    *("batchGenerateContent", "asyncBatchEmbedContent", "batchPredictionJobs"),
)
_LONGEST_WORD = 40
_TIER_HEADER = "x-gemini-service-tier"


def _wrap_whole(endpoint: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, endpoint, kwargs)
        answer = original(self, *args, **kwargs)
        if call is not None:
            _end(call, answer)
        return answer

    return call_model


def _wrap_async_whole(endpoint: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def call_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, endpoint, kwargs)
        answer = await original(self, *args, **kwargs)
        if call is not None:
            _end(call, answer)
        return answer

    return call_model


def _wrap_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a generator function; the library's own generator around it is what programs get."""

    @functools.wraps(original)
    def call_model(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        call = _begin(self, _CONTENT, kwargs, is_stream=True)
        chunks = original(self, *args, **kwargs)
        return chunks if call is None else _chunks(chunks, call)

    return call_model


def _wrap_async_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def call_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, _CONTENT, kwargs, is_stream=True)
        chunks = await original(self, *args, **kwargs)
        return chunks if call is None else _async_chunks(chunks, call)

    return call_model


def _wrap_other(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        _note_other(args)
        return answer

    return request


def _wrap_async_other(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, *args, **kwargs)
        _note_other(args)
        return answer

    return request


def _begin(
    models: Any, endpoint: str, asked: dict[str, Any], *, is_stream: bool = False
) -> Call | None:
    try:
        if capture.active is None:
            return None
        config = members_of(asked.get("config"))
        members = {
            "model": _name(asked.get("model")),
            "max_tokens": config.get("max_output_tokens", config.get("maxOutputTokens")),
            "system": config.get("system_instruction", config.get("systemInstruction")),
            "messages": asked.get("contents"),
        }
        call = begin_elsewhere("google", _provider(models), endpoint, members)
        if call is not None and is_stream:
            call.begins_stream()
        return call
    except Exception:
        note_fault()
        return None


def _provider(models: Any) -> str:
    """Return Google, unless the program has named the provider behind the host."""
    options = members_of(getattr(models._api_client, "_http_options", None))
    host = str(options.get("base_url")).partition("://")[2].partition("/")[0].partition(":")[0]
    return provider_at(host.lower(), "google")


def _name(model: object) -> str | None:
    """Return the model's name without its path, which may have the number of a project."""
    return model.rpartition("/")[2] or None if isinstance(model, str) else None


def _end(call: Call, answer: Any) -> None:
    try:
        members = members_of(answer)
        http = members_of(members.get("sdk_http_response"))
        body = http.get("body")
        if isinstance(body, str):  # a program may ask for the response as it came
            members = read_document(body.encode())
        if call.endpoint == _EMBEDDINGS:
            call.take(embedding_usage(members) or None, None)
        else:
            _take(call, members, http.get("headers"), is_partial=False)
        call.end()
    except Exception:
        note_fault()


def _take(call: Call, members: dict[str, Any], headers: Any, *, is_partial: bool) -> None:
    usage = members.get("usage_metadata", members.get("usageMetadata"))
    if usage is None:
        return
    answer_id = id_or_none(members.get("response_id", members.get("responseId")))
    call.request_id = answer_id or call.request_id
    model = _name(members.get("model_version", members.get("modelVersion")))
    beside = {"candidates": members.get("candidates")}
    call.take_partial(usage, model, is_partial=is_partial, tier=tier_in(headers), beside=beside)


def see(call: Call, chunk: Any) -> None:
    """Take the counts so far, which are whole in the chunk that says why the answer ended."""
    members = members_of(chunk)
    candidates = map(members_of, members.get("candidates") or ())
    is_over = any(
        each.get("finish_reason", each.get("finishReason")) is not None for each in candidates
    )
    http = members_of(members.get("sdk_http_response"))
    _take(call, members, http.get("headers"), is_partial=not is_over)


def _chunks(chunks: Any, call: Call) -> Iterator[Any]:
    try:
        for chunk in chunks:
            try:
                see(call, chunk)
            except Exception:
                note_fault()
            yield chunk
        _note_whole(call)
    except Exception:
        call.status = "error"
        raise
    finally:
        call.end()


async def _async_chunks(chunks: Any, call: Call) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            try:
                see(call, chunk)
            except Exception:
                note_fault()
            yield chunk
        _note_whole(call)
    except Exception:
        call.status = "error"
        raise
    finally:
        call.end()


def tier_in(headers: Any) -> object:
    """Return the tier that a header says."""
    return headers.get(_TIER_HEADER) if headers else None


def embedding_usage(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the usage of embeddings: of all together, or as Vertex AI says it of each."""
    usage = answer.get("usage_metadata", answer.get("usageMetadata"))
    if usage is not None:
        return members_of(usage)
    total = 0
    for embedding in answer.get("embeddings") or ():
        statistics = members_of(members_of(embedding).get("statistics"))
        count = count_of(statistics.get("token_count"))
        if count is None:
            return {}
        total += count
    return {"prompt_token_count": total} if total else {}


def _note_whole(call: Call) -> None:
    try:
        call.is_whole()
    except Exception:
        note_fault()


def _note_other(args: tuple[Any, ...]) -> None:
    try:
        current, (method, path) = capture.active, args[:2]
        if current is None or method.lower() != "post":
            return
        last = str(path).partition("?")[0].rpartition("/")[2]
        model, _, action = last.rpartition(":")
        is_hooked = action in _HOOKED or (action == "predict" and "embedding" in model)
        if not is_hooked:
            is_word = action.isalpha() and len(action) <= _LONGEST_WORD
            current.miss(action if is_word else None)
    except Exception:
        note_fault()


_whole = functools.partial(_wrap_whole, _CONTENT)
_async_whole = functools.partial(_wrap_async_whole, _CONTENT)
_embedding = functools.partial(_wrap_whole, _EMBEDDINGS)
_async_embedding = functools.partial(_wrap_async_whole, _EMBEDDINGS)
POINTS = (
    ("Models", ("_generate_content",), _whole),
    ("AsyncModels", ("_generate_content",), _async_whole),
    ("Models", ("_generate_content_stream",), _wrap_stream),
    ("AsyncModels", ("_generate_content_stream",), _wrap_async_stream),
    # The public method calls the other one, where there is one.
    ("Models", ("_embed_content", "embed_content"), _embedding),
    ("AsyncModels", ("_embed_content", "embed_content"), _async_embedding),
    ("BaseApiClient", ("request",), _wrap_other),
    ("BaseApiClient", ("async_request",), _wrap_async_other),
    ("ApiClient", ("request",), _wrap_other),
    ("ApiClient", ("async_request",), _wrap_async_other),
)
