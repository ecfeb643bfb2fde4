"""Results of Anthropic's message batches: each message counts as the program reads it.

Results can be read again for weeks, so the time of each is the end of its batch: the same results
are then the same calls.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable

from tallystick import capture
from tallystick.capture import note_fault
from tallystick.labels import current_session, current_tag
from tallystick.reading.providers import provider_of
from tallystick.reading.usage.reader import members_of, read_usage
from tallystick.sending.records import Asked, Record

_REMEMBERED = 256
_ends: dict[str, float] = {}  # when each batch ended, as its client has seen it last


def _wrap_retrieve(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def retrieve(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        _note_end(answer)
        return answer

    return retrieve


def _wrap_async_retrieve(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def retrieve(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, *args, **kwargs)
        _note_end(answer)
        return answer

    return retrieve


def _wrap_results(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def results(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        _watch(self, args, kwargs, answer, _messages)
        return answer

    return results


def _wrap_async_results(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def results(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await original(self, *args, **kwargs)
        _watch(self, args, kwargs, answer, _async_messages)
        return answer

    return results


def _note_end(batch: Any) -> None:
    try:
        members = members_of(batch)
        if members.get("ended_at") is not None:
            if len(_ends) >= _REMEMBERED:
                _ends.clear()
            _ends[members["id"]] = members["ended_at"].timestamp()
    except Exception:
        note_fault()


def _watch(resource: Any, args: Any, kwargs: Any, decoder: Any, watch: Callable[..., Any]) -> None:
    """Put a watching generator in the place of the decoder's own."""
    try:
        ended_at = _ends.get(args[0] if args else kwargs["message_batch_id"])
        if capture.active is not None and ended_at is not None and hasattr(decoder, "_iterator"):
            provider = provider_of(resource._client, "anthropic")
            decoder.__dict__["_iterator"] = watch(decoder._iterator, provider, ended_at)
    except Exception:
        note_fault()


def _messages(items: Any, provider: str, ended_at: float) -> Iterator[Any]:
    for item in items:
        _count(item, provider, ended_at)
        yield item


async def _async_messages(items: Any, provider: str, ended_at: float) -> AsyncIterator[Any]:
    async for item in items:
        _count(item, provider, ended_at)
        yield item


def _count(item: Any, provider: str, ended_at: float) -> None:
    try:
        current = capture.active
        message = members_of(members_of(members_of(item).get("result")).get("message"))
        usage, model = message.get("usage"), message.get("model")
        if current is None or usage is None or not isinstance(model, str):
            return
        readings = read_usage(usage, model=model)
        if not readings:
            current.miss("messages")
            return
        settings = current.settings
        asked = Asked(
            provider=provider,
            endpoint="messages",
            tag=current_tag() or settings.label,
            environment=settings.environment,
            session_id=current_session(),
        )
        if not current.delivery.is_started:
            current.delivery.start()
        for number, reading in enumerate(readings):
            for path, value in reading.unknown.items():
                current.note_unknown(path, value)
            answer_id = message.get("id")
            named = f"{answer_id}.{number + 1}" if number and answer_id else answer_id
            counts = (reading.prompt, reading.completion, reading.cached, reading.written)
            parts = {**reading.parts, "service_tier": "batch", "region": reading.region}
            current.delivery.put(
                Record(
                    asked, ended_at, reading.model or model, *counts, request_id=named, parts=parts
                )
            )
    except Exception:
        note_fault()


POINTS = (
    ("Batches", ("retrieve",), _wrap_retrieve),
    ("AsyncBatches", ("retrieve",), _wrap_async_retrieve),
    ("Batches", ("results",), _wrap_results),
    ("AsyncBatches", ("results",), _wrap_async_results),
)
