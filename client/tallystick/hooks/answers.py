"""Results of a request: a response, a stream, or a raw response that may be parsed later."""

from __future__ import annotations

import functools
from typing import Any, Callable

from tallystick.calls import Call
from tallystick.capture import note_fault
from tallystick.hooks.streams import follow
from tallystick.hooks.unparsed import Parser, Unparsed

# On the raw response itself, and only if it came out of `request`: those that the library makes
# for itself on the way are parsed through the same method, and must not count a second time.
_WAITING = "_tallystick_call"
_REMEMBERED = 256

_streams: dict[type, bool] = {}


def end_or_attach(call: Call | None, answer: Any) -> None:
    """End the call, or attach it to the stream or raw response that will end it."""
    if call is None:
        return
    kind = type(answer)
    is_stream = _streams.get(kind)
    if is_stream is None:
        is_stream = _is_stream(kind)
    if is_stream:
        follow(call, answer)
        return
    members = getattr(answer, "__dict__", None)
    if members is not None:
        if "_parsed_by_type" in members:
            response = answer.http_response
            call.arrived(response.headers, False)
            members[_WAITING] = waiting = Unparsed(call, response)
            for parsed in list(members["_parsed_by_type"].values()):
                end_or_attach(waiting.parsed(), parsed)  # by a middleware; not parsed again
            return
        call.request_id = call.request_id or members.get("_request_id")
    call.see(answer)
    call.end()


def _is_stream(kind: type) -> bool:
    """Check for a stream, with a cache, because attribute lookups on models are slow."""
    if len(_streams) >= _REMEMBERED:
        _streams.clear()
    is_stream = _streams[kind] = hasattr(kind, "__stream__")
    return is_stream


def watch_parser(call: Call, options: Any) -> None:
    """Watch the parser of a request, which runs before `request` returns, and may fail."""
    members = options.__dict__
    members["post_parser"] = Parser(call, members["post_parser"])


def wrap_parse(library: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        try:
            waiting = self.__dict__.get(_WAITING)
            if waiting is not None:
                end_or_attach(waiting.parsed(), answer)
            else:
                parser = self._options.__dict__.get("post_parser")
                if type(parser) is Parser:  # its failure would not show the request's ID
                    parser.call.arrived(self.http_response.headers, False)
        except Exception:
            note_fault()
        return answer

    return _parse
