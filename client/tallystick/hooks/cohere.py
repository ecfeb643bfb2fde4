"""Calls of Cohere's library, of both versions of its API, counted as they are billed.

Every request goes through the library's own HTTP client. A rerank is billed by searches, not by
tokens: they are units of its record.
"""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Callable

from tallystick.calls import Call, begin_elsewhere
from tallystick.hooks.responses import arrived, watch_events, watch_json
from tallystick.hooks.wrapping import around, guarded
from tallystick.reading.documents import id_or_none
from tallystick.reading.options import route_of
from tallystick.reading.usage.reader import members_of

_SIGN = b"billed_units"
_LABELS = {"embed": "embeddings"}


def _wrap_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    @contextmanager
    def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = guarded(_begin, self, args, kwargs)
        with original(self, *args, **kwargs) as response:
            guarded(_watch_stream, call, response)
            yield response

    return stream


def _wrap_async_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    @asynccontextmanager
    async def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = guarded(_begin, self, args, kwargs)
        async with original(self, *args, **kwargs) as response:
            guarded(_watch_stream, call, response)
            yield response

    return stream


def _begin(client: Any, args: Any, kwargs: Any) -> Call | None:
    """Begin a call; older versions give the method first, and then the URL."""
    named = [kwargs.get("method"), *args][:2] if "method" in kwargs else args[:2]
    method, path = (*named, kwargs.get("path") or kwargs.get("url"))[:2]
    if str(method).upper() != "POST":
        return None
    endpoint = route_of(path)[0]
    asked = kwargs.get("json")
    return begin_elsewhere("cohere", "cohere", _LABELS.get(str(endpoint), endpoint), asked)


def _watch(call: Call, response: Any) -> None:
    """Watch a response; a retry's is watched already, for a call that began later."""
    if arrived(call, response):
        watch_json(call, response, take)


def _watch_stream(call: Call | None, response: Any) -> None:
    if call is not None and arrived(call, response):
        watch_events(call, response, take, _SIGN)


def take(call: Call, document: Any) -> None:
    """Take the usage of an answer, or of the last event of a stream."""
    members = members_of(document)
    holder = members_of(members.get("delta") or members.get("response")) or members
    usage = members_of(holder.get("usage") or holder.get("meta"))
    if not usage:
        return
    ids = (members, holder)
    found = [each.get(name) for each in ids for name in ("id", "response_id", "generation_id")]
    call.request_id = next(filter(None, map(id_or_none, found)), call.request_id)
    call.take(usage, None)


POINTS = (
    ("HttpClient", ("request",), around(_begin, _watch)),
    ("HttpClient", ("stream",), _wrap_stream),
    ("AsyncHttpClient", ("request",), around(_begin, _watch, is_async=True)),
    ("AsyncHttpClient", ("stream",), _wrap_async_stream),
)
