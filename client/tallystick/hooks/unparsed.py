"""Answers that the library never makes a whole object of: read as text, or rejected by a parser.

The provider bills them all the same. Nothing here reads from the network: a body counts if the
program has read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Callable
from weakref import ref

from tallystick.calls import Call
from tallystick.capture import note_fault


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
