"""Calls of Gemini, through its API or Vertex AI: contents, their streams, embeddings.

Chats, automatic function calls and retries all end in the methods hooked here. What else the
library posts goes through its client's `request` and is only counted as not captured.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from tallystick import capture
from tallystick.calls import Call, begin_elsewhere
from tallystick.hooks.wrapping import Watch, around, watched, watched_async
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


def _begin(endpoint: str, models: Any, _: Any, asked: dict[str, Any]) -> Call | None:
    if capture.active is None:
        return None
    config = members_of(asked.get("config"))
    members = {
        "model": _name(asked.get("model")),
        "max_tokens": config.get("max_output_tokens", config.get("maxOutputTokens")),
        "system": config.get("system_instruction", config.get("systemInstruction")),
        "messages": asked.get("contents"),
    }
    return begin_elsewhere("google", _provider(models), endpoint, members)


def _begin_stream(*asked: Any) -> Call | None:
    call = _begin(_CONTENT, *asked)
    if call is not None:
        call.begins_stream()
    return call


def _provider(models: Any) -> str:
    """Return Google, unless the program has named the provider behind the host."""
    options = members_of(getattr(models._api_client, "_http_options", None))
    host = str(options.get("base_url")).partition("://")[2].partition("/")[0].partition(":")[0]
    return provider_at(host.lower(), "google")


def _name(model: object) -> str | None:
    """Return the model's name without its path, which may have the number of a project."""
    return model.rpartition("/")[2] or None if isinstance(model, str) else None


def _end(call: Call, answer: Any) -> None:
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


def _take(call: Call, members: dict[str, Any], headers: Any, *, is_partial: bool) -> None:
    usage = members.get("usage_metadata", members.get("usageMetadata"))
    if usage is None:
        return
    answer_id = id_or_none(members.get("response_id", members.get("responseId")))
    call.request_id = answer_id or call.request_id
    model = _name(members.get("model_version", members.get("modelVersion")))
    beside = {"candidates": members.get("candidates")}
    tier = headers.get(_TIER_HEADER) if headers else None
    call.take_partial(usage, model, is_partial=is_partial, tier=tier, beside=beside)


def see(call: Call, chunk: Any) -> None:
    """Take the counts so far, which are whole in the chunk that says why the answer ended."""
    members = members_of(chunk)
    candidates = map(members_of, members.get("candidates") or ())
    is_over = any(
        each.get("finish_reason", each.get("finishReason")) is not None for each in candidates
    )
    http = members_of(members.get("sdk_http_response"))
    _take(call, members, http.get("headers"), is_partial=not is_over)


class _Chunks(Watch):
    __slots__ = ()

    def see(self, item: Any) -> None:
        see(self.call, item)

    def see_end(self) -> None:
        self.call.is_whole()


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


def _watch(watch: Callable[..., Any], call: Call, chunks: Any) -> Any:
    return watch(chunks, _Chunks(call))


def _note_request(client: Any, args: Any, kwargs: Any) -> Any:
    return args


def _note_other(args: tuple[Any, ...], _: Any) -> None:
    """Count a request that no other hook sees as not captured."""
    current, (method, path) = capture.active, args[:2]
    if current is None or method.lower() != "post":
        return
    last = str(path).partition("?")[0].rpartition("/")[2]
    model, _, action = last.rpartition(":")
    is_hooked = action in _HOOKED or (action == "predict" and "embedding" in model)
    if not is_hooked:
        is_word = action.isalpha() and len(action) <= _LONGEST_WORD
        current.miss(action if is_word else None)


_WAYS: tuple[tuple[str, str, Callable[..., Any], bool], ...] = (
    ("Models", "request", watched, False),
    ("AsyncModels", "async_request", watched_async, True),
)
POINTS = tuple(
    (kind, names, around(begin, end, is_async=is_async))
    for models, request, watch, is_async in _WAYS
    for kind, names, begin, end in (
        (models, ("_generate_content",), functools.partial(_begin, _CONTENT), _end),
        # A generator function; the library's own generator around it is what programs get.
        (models, ("_generate_content_stream",), _begin_stream, functools.partial(_watch, watch)),
        # The public method calls the other one, where there is one.
        (
            models,
            ("_embed_content", "embed_content"),
            functools.partial(_begin, _EMBEDDINGS),
            _end,
        ),
        ("BaseApiClient", (request,), _note_request, _note_other),
        ("ApiClient", (request,), _note_request, _note_other),
    )
)
