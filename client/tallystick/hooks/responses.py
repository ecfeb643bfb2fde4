"""Responses of httpx, in libraries that read them themselves: whole, or as server-sent events.

What is set on a response stands in the place of its method until that is called.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault
from tallystick.reading.providers import provider_at

# Takes the counts of a JSON document for a call.
Take = Callable[[Call, Any], None]
_DATA, _DONE = b"data:", b"[DONE]"
_LAST = (_DONE, b"}")  # the last event of OpenAI's streams, and of Anthropic's
_SHORT = 40


def arrived(call: Call, response: Any) -> bool:
    """Note the provider at the response's host; False for an error, which counts nowhere."""
    call.is_sold_by(provider_at(response.request.url.host.lower(), call.library))
    return bool(200 <= response.status_code < 300)


def watch_json(call: Call, response: Any, take: Take) -> None:
    """End the call when the library parses the response."""
    response.__dict__["json"] = _Json(call, response, take)


def watch_events(call: Call, response: Any, take: Take, sign: bytes) -> None:
    """End the call with the stream; lines that contain the sign have its counts."""
    watch_frames(call, response, Lines(call, take, sign))


def watch_frames(call: Call, response: Any, frames: Any) -> None:
    """End the call with the stream; `frames` sees its bytes, and returns those to see again."""
    call.begins_stream()
    for name, watch in _WATCHES.items():
        response.__dict__[name] = _Bytes(frames, response, name, watch)


class _Json:
    """In the place of a response's `json`."""

    __slots__ = ("_call", "_response", "_take")

    def __init__(self, call: Call, response: Any, take: Take) -> None:
        self._call, self._take = call, take
        self._response = response

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self._response.__dict__.pop("json", None)
        except Exception:
            note_fault()
        document = type(self._response).json(self._response, *args, **kwargs)
        try:
            if not self._call.has_ended:
                self._take(self._call, document)
                self._call.end()
        except Exception:
            note_fault()
        return document


class _Bytes:
    """In the place of a response's `iter_bytes`, which its other ways to be read are based on."""

    __slots__ = ("_lines", "_name", "_response", "_watch")

    def __init__(self, lines: Lines, response: Any, name: str, watch: Callable[..., Any]) -> None:
        self._lines, self._name, self._watch = lines, name, watch
        self._response = response

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            for name in _WATCHES:
                self._response.__dict__.pop(name, None)
        except Exception:
            note_fault()
        items = getattr(type(self._response), self._name)(self._response, *args, **kwargs)
        return self._watch(items, self._lines)


class Lines:
    """Reads the lines of a stream that have counts; keeps no other."""

    __slots__ = ("_sign", "_take", "call")

    def __init__(self, call: Call, take: Take, sign: bytes) -> None:
        self.call, self._take, self._sign = call, take, sign

    def see(self, data: bytes) -> bytes:
        """Return what follows the last whole line."""
        lines, _, rest = data.rpartition(b"\n")
        if self._sign in lines:
            for line in lines.splitlines():
                if self._sign in line:
                    self._take_line(line)
        if lines.rstrip().endswith(_LAST):
            self._see_end(lines)
        return rest

    def _take_line(self, line: bytes) -> None:
        self._take(self.call, json.loads(line[len(_DATA) :] if line.startswith(_DATA) else line))

    def _see_end(self, lines: bytes) -> None:
        """End the call at the last event, which some libraries read no further than."""
        last = lines.rstrip().rpartition(b"\n")[2][len(_DATA) :].strip()
        if last == _DONE:
            self.call.is_whole()
        if last == _DONE or (len(last) < _SHORT and b'"message_stop"' in last):
            self.call.end()

    def see_rest(self, rest: bytes) -> None:
        try:
            self.see(rest + b"\n")
        except Exception:
            note_fault()

    def end(self) -> None:
        self.call.end()


def watched(items: Iterator[bytes], lines: Any) -> Iterator[bytes]:
    """Yield the pieces of a body that `lines` sees; its end ends the call."""
    rest = b""
    try:
        for item in items:
            try:
                rest = lines.see(rest + item)
            except Exception:
                rest = b""
                note_fault()
            yield item
        lines.see_rest(rest)
    except Exception:
        lines.call.status = "error"
        raise
    finally:  # whatever ended it: its end, a failure, its collection
        lines.end()


async def watched_async(items: AsyncIterator[bytes], lines: Any) -> AsyncIterator[bytes]:
    rest = b""
    try:
        async for item in items:
            try:
                rest = lines.see(rest + item)
            except Exception:
                rest = b""
                note_fault()
            yield item
        lines.see_rest(rest)
    except Exception:
        lines.call.status = "error"
        raise
    finally:
        lines.end()


_WATCHES: dict[str, Callable[..., Any]] = {"iter_bytes": watched, "aiter_bytes": watched_async}
