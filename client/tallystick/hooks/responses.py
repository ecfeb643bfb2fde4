"""Responses of httpx, in libraries that read them themselves: whole, or as server-sent events.

What is set on a response stands in the place of its method until that is called.
"""

from __future__ import annotations

import json
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.hooks.wrapping import Watch, guarded, watched, watched_async
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
    watch_pieces(response, Lines(call, take, sign))


def watch_pieces(response: Any, watch: Watch) -> None:
    """End the call with the stream, whose bytes `watch` sees."""
    watch.call.begins_stream()
    for name in _WATCHES:
        response.__dict__[name] = _Bytes(watch, response, name)


class _Json:
    """In the place of a response's `json`."""

    __slots__ = ("_call", "_response", "_take")

    def __init__(self, call: Call, response: Any, take: Take) -> None:
        self._call, self._take = call, take
        self._response = response

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        guarded(self._response.__dict__.pop, "json", None)
        document = type(self._response).json(self._response, *args, **kwargs)
        guarded(self._end, document)
        return document

    def _end(self, document: Any) -> None:
        if not self._call.has_ended:
            self._take(self._call, document)
            self._call.end()


class _Bytes:
    """In the place of a response's `iter_bytes`, which its other ways to be read are based on."""

    __slots__ = ("_name", "_response", "_watch")

    def __init__(self, watch: Watch, response: Any, name: str) -> None:
        self._watch, self._name, self._response = watch, name, response

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for name in _WATCHES:
            guarded(self._response.__dict__.pop, name, None)
        items = getattr(type(self._response), self._name)(self._response, *args, **kwargs)
        return _WATCHES[self._name](items, self._watch)


class Pieces(Watch):
    """Sees the pieces of a body; what follows the last whole part is seen with the next one."""

    __slots__ = ("_rest",)

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._rest = b""

    def see(self, item: bytes) -> None:
        data, self._rest = self._rest + item, b""
        self._rest = self._see_whole(data)

    def _see_whole(self, data: bytes) -> bytes:
        """See the whole parts, and return what follows them."""
        raise NotImplementedError


class Lines(Pieces):
    """Reads the lines of a stream that have counts; keeps no other."""

    __slots__ = ("_sign", "_take")

    def __init__(self, call: Call, take: Take, sign: bytes) -> None:
        super().__init__(call)
        self._take, self._sign = take, sign

    def _see_whole(self, data: bytes) -> bytes:
        lines, _, rest = data.rpartition(b"\n")
        if self._sign in lines:
            for line in lines.splitlines():
                if self._sign in line:
                    text = line[len(_DATA) :] if line.startswith(_DATA) else line
                    self._take(self.call, json.loads(text))
        if lines.rstrip().endswith(_LAST):  # some libraries read no further than the last event
            last = lines.rstrip().rpartition(b"\n")[2][len(_DATA) :].strip()
            if last == _DONE:
                self.call.is_whole()
            if last == _DONE or (len(last) < _SHORT and b'"message_stop"' in last):
                self.call.end()
        return rest

    def see_end(self) -> None:
        self.see(b"\n")


_WATCHES: dict[str, Callable[..., Any]] = {"iter_bytes": watched, "aiter_bytes": watched_async}
