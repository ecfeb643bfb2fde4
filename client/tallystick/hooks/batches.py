"""Results of Anthropic's message batches, and of Gemini's batches whose answers come with the job.

Each message of Anthropic's counts as the program reads it, Gemini's answers when the program gets
the finished job. Results can be read again for weeks, so the time of each is the end of its batch:
the same results are then the same calls.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from time import time
from typing import Any, Callable

from tallystick import capture
from tallystick.hooks.wrapping import around, guarded
from tallystick.labels import current_session, current_tag
from tallystick.reading.documents import id_or_none
from tallystick.reading.providers import provider_of
from tallystick.reading.usage.reader import Reading, members_of, read_usage
from tallystick.sending.records import Asked, Record

_REMEMBERED = 256
_ends: dict[str, float] = {}  # when each batch ended, as its client has seen it last
_read: dict[str, None] = {}  # Gemini's jobs whose results have been counted
_SUCCEEDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED")


def _note_end(_: Any, batch: Any) -> None:
    members = members_of(batch)
    if members.get("ended_at") is not None:
        if len(_ends) >= _REMEMBERED:
            _ends.clear()
        _ends[members["id"]] = members["ended_at"].timestamp()


def _watch(watch: Callable[..., Any], asked: tuple[Any, Any, Any], decoder: Any) -> None:
    """Put a watching generator in the place of the decoder's own."""
    resource, args, kwargs = asked
    ended_at = _ends.get(args[0] if args else kwargs["message_batch_id"])
    if capture.active is not None and ended_at is not None and hasattr(decoder, "_iterator"):
        provider = provider_of(resource._client, "anthropic")
        decoder.__dict__["_iterator"] = watch(decoder._iterator, provider, ended_at)


def _messages(items: Any, provider: str, ended_at: float) -> Iterator[Any]:
    for item in items:
        guarded(_count, item, provider, ended_at)
        yield item


async def _async_messages(items: Any, provider: str, ended_at: float) -> AsyncIterator[Any]:
    async for item in items:
        guarded(_count, item, provider, ended_at)
        yield item


def _count(item: Any, provider: str, ended_at: float) -> None:
    current = capture.active
    message = members_of(members_of(members_of(item).get("result")).get("message"))
    usage, model = message.get("usage"), message.get("model")
    if current is None or usage is None or not isinstance(model, str):
        return
    readings = read_usage(usage, model=model)
    asked = _asked(current, provider, "messages")
    _put(current, asked, ended_at, model, readings, message.get("id"))


def _asked(current: capture.Capture, provider: str, endpoint: str) -> Asked:
    settings = current.settings
    return Asked(
        provider=provider,
        endpoint=endpoint,
        tag=current_tag() or settings.label,
        environment=settings.environment,
        session_id=current_session(),
    )


def _put(
    current: capture.Capture,
    asked: Asked,
    ended_at: float,
    model: str,
    readings: list[Reading],
    answer_id: str | None,
) -> None:
    """Make the records of an answer at the time and the tier of its batch."""
    if not readings:
        current.miss(asked.endpoint)
    elif not current.delivery.is_started:
        current.delivery.start()
    for number, reading in enumerate(readings):
        for path, value in reading.unknown.items():
            current.note_unknown(path, value)
        named = f"{answer_id}.{number + 1}" if number and answer_id else answer_id
        counts = (reading.prompt, reading.completion, reading.cached, reading.written)
        parts: dict[str, Any] = {**reading.parts, "service_tier": "batch", "region": reading.region}
        if reading.units:
            parts["units"] = reading.units
        name = reading.model or model
        current.delivery.put(Record(asked, ended_at, name, *counts, request_id=named, parts=parts))


# --- Gemini


def _count_job(resource: Any, job: Any) -> None:
    """Count the answers of a finished job once; a job that writes them to a file has none."""
    current, members = capture.active, members_of(job)
    state, name = members.get("state"), str(members.get("name"))
    if current is None or getattr(state, "value", state) not in _SUCCEEDED or name in _read:
        return
    if len(_read) >= _REMEMBERED:
        _read.clear()
    _read[name] = None
    from tallystick.hooks.gemini import _name, _provider

    found = members_of(members.get("dest"))
    chats = found.get("inlined_responses") or ()
    texts = found.get("inlined_embed_content_responses") or ()
    if not (chats or texts):
        current.miss("batches")
    ended = members.get("end_time") or members.get("update_time")
    ended_at = ended.timestamp() if ended else time()
    provider, asked_model = _provider(resource), _name(members.get("model"))
    for endpoint, items in (("generateContent", chats), ("embeddings", texts)):
        asked = _asked(current, provider, endpoint)
        for number, item in enumerate(items):
            answer = members_of(members_of(item).get("response"))
            model = _name(answer.get("model_version")) or asked_model
            if not answer or model is None:
                continue
            # An embedding has the tokens of its text alone.
            of_text = {"prompt_token_count": answer.get("token_count")}
            usage = answer.get("usage_metadata") or of_text
            beside = {"candidates": answer.get("candidates")}
            readings = read_usage(usage, model=model, beside=beside, may_lack_output=True)
            answer_id = id_or_none(answer.get("response_id")) or f"{name}.{number}"
            _put(current, asked, ended_at, model, readings, answer_id)


def _points(kind: str, *, is_async: bool) -> tuple[tuple[str, tuple[str], Any], ...]:
    watch = functools.partial(_watch, _async_messages if is_async else _messages)
    return (
        (kind, ("retrieve",), around(lambda *_: True, _note_end, is_async=is_async)),
        (kind, ("results",), around(lambda *asked: asked, watch, is_async=is_async)),
        (kind, ("get",), around(lambda resource, *_: resource, _count_job, is_async=is_async)),
    )


POINTS = (*_points("Batches", is_async=False), *_points("AsyncBatches", is_async=True))
