"""Calls of DSPy's own engine, which has its own HTTP client; over LiteLLM it is hooked there."""

from __future__ import annotations

import functools
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.hooks.litellm import IDS, SIGN, begin_at, take
from tallystick.hooks.responses import Lines
from tallystick.hooks.wrapping import Watch, around, guarded, watched, watched_async
from tallystick.reading.documents import read_document


def _begin(transport: Any, args: Any, kwargs: Any) -> Call | None:
    request = args[0] if args else kwargs["request"]
    return begin_at(request.url, request.body, None) if request.method == "POST" else None


def _watch(watch: Callable[..., Any], call: Call, response: Any) -> None:
    """Put a watching generator in the place of the body's pieces."""
    if not 200 <= response.status < 300:
        return
    headers = {name.lower(): value for name, value in response.headers}
    call.request_id = next((headers[name] for name in IDS if name in headers), None)
    if headers.get("content-type", "").startswith("text/event-stream"):
        call.begins_stream()
        response._chunks = watch(response._chunks, Lines(call, take, SIGN))
    else:
        response._chunks = watch(response._chunks, _Body(call))


class _Body(Watch):
    """Reads a whole body, in as many pieces as it comes."""

    __slots__ = ("_pieces",)

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._pieces: list[bytes] = []

    def see(self, item: bytes) -> None:
        self._pieces.append(item)

    def end(self) -> None:
        guarded(self._end_whole)

    def _end_whole(self) -> None:
        take(self.call, read_document(b"".join(self._pieces)))
        self.call.is_whole()
        self.call.end()


_send = around(_begin, functools.partial(_watch, watched))
_send_async = around(_begin, functools.partial(_watch, watched_async), is_async=True)
POINTS = (
    ("StdlibTransport", ("stream",), _send),
    ("StdlibAsyncTransport", ("_do_stream",), _send_async),
)
