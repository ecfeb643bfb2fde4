"""Results of a request: a response, a stream, or a raw response that may be parsed later.

The provider also bills answers that the library never makes a whole object of: those that are read
as text, or that a parser rejects. Nothing here reads from the network: a body counts if the program
has read it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Callable
from weakref import ref

from tallystick.calls import Call
from tallystick.capture import note_fault
from tallystick.hooks.streams import follow

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


class Parser:
    """In the place of a request's own parser, which may reject an answer that is cut off."""

    __slots__ = ("_parse", "call")

    def __init__(self, call: Call, original: Callable[[Any], Any]) -> None:
        self.call = call
        self._parse = original

    def __call__(self, parsed: Any) -> Any:
        try:
            return self._parse(parsed)
        except Exception:
            try:
                self.call.see(parsed)
                self.call.end()
            except Exception:
                note_fault()
            raise


class Unparsed:
    """On a raw response: ends its call when the response is parsed, or else when it is dropped."""

    __slots__ = ("__weakref__", "_response", "call")

    call: Call | None

    def __init__(self, call: Call, response: Any) -> None:
        self.call = call
        self._response = response
        call.capture.unparsed[id(self)] = ref(self)

    def parsed(self) -> Call | None:
        """Return the call, which whatever was parsed will end; None for a second time."""
        call, self.call = self.call, None
        if call is not None:
            call.capture.unparsed.pop(id(self), None)
        return call

    def end(self, *, is_over: bool) -> None:
        """End the call if the body was read, or if the response is over; never raises."""
        try:
            if self.call is None:
                return
            content = self._response.__dict__.get("_content")
            if content is None and not is_over:
                return
            call = self.parsed()
            if call is None or call.has_ended:
                return
            if content is not None:
                for document in _documents(content):
                    call.see(document)
            call.end()
        except Exception:
            note_fault()

    def __del__(self) -> None:
        self.end(is_over=True)


def _documents(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield a JSON object, or of server-sent events those that may have a usage."""
    lines = [content]
    if not content.lstrip().startswith(b"{"):
        lines = [line[5:] for line in content.splitlines() if line.startswith(b"data:")]
    for line in lines:
        if b'"usage"' in line:
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict):
                yield document
