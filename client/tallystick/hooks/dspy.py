"""Calls of DSPy's own engine, which has its own HTTP client; over LiteLLM it is hooked there."""

from __future__ import annotations

import functools
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault
from tallystick.hooks.litellm import IDS, SIGN, begin_at, take
from tallystick.hooks.responses import Lines, watched, watched_async
from tallystick.reading.documents import read_document


def _wrap_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(*args, **kwargs)
        response = original(self, *args, **kwargs)
        if call is not None:
            _watch(call, response, watched)
        return response

    return stream


def _wrap_async_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _do_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(*args, **kwargs)
        response = await original(self, *args, **kwargs)
        if call is not None:
            _watch(call, response, watched_async)
        return response

    return _do_stream


def _begin(request: Any) -> Call | None:
    try:
        return begin_at(request.url, request.body, None) if request.method == "POST" else None
    except Exception:
        note_fault()
        return None


def _watch(call: Call, response: Any, watch: Callable[..., Any]) -> None:
    """Put a watching generator in the place of the body's pieces."""
    try:
        if not 200 <= response.status < 300:
            return
        headers = {name.lower(): value for name, value in response.headers}
        call.request_id = next((headers[name] for name in IDS if name in headers), None)
        if headers.get("content-type", "").startswith("text/event-stream"):
            call.begins_stream()
            response._chunks = watch(response._chunks, Lines(call, take, SIGN))
        else:
            response._chunks = watch(response._chunks, _Body(call))
    except Exception:
        note_fault()


class _Body:
    """Reads a whole body, in as many pieces as it comes."""

    __slots__ = ("_pieces", "call")

    def __init__(self, call: Call) -> None:
        self.call = call
        self._pieces: list[bytes] = []

    def see(self, data: bytes) -> bytes:
        self._pieces.append(data)
        return b""

    def see_rest(self, rest: bytes) -> None:
        """Do nothing: every piece was kept."""

    def end(self) -> None:
        try:
            take(self.call, read_document(b"".join(self._pieces)))
            self.call.is_whole()
            self.call.end()
        except Exception:
            note_fault()


POINTS = (
    ("StdlibTransport", ("stream",), _wrap_stream),
    ("StdlibAsyncTransport", ("_do_stream",), _wrap_async_stream),
)
