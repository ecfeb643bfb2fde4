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

# A class's kind: that of a model, of a stream, or of what another tool wraps either in.
_MODEL, _STREAM, _PROXY = range(3)
_kinds: dict[type, int] = {}


def end_or_attach(call: Call | None, answer: Any) -> None:
    """End the call, or attach it to the stream or raw response that will end it."""
    if call is None:
        return
    kind = _kinds.get(type(answer))
    if kind is None:
        kind = _kind_of(type(answer))
    if kind:
        if kind == _STREAM:
            follow(call, answer)
        else:
            end_or_attach(call, answer.__wrapped__)
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


def _kind_of(kind: type) -> int:
    """Look it up with a cache, because attribute lookups on models are slow."""
    if len(_kinds) >= _REMEMBERED:
        _kinds.clear()
    found = _STREAM if hasattr(kind, "__stream__") else _MODEL
    _kinds[kind] = found = _PROXY if hasattr(kind, "__wrapped__") else found
    return found


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
