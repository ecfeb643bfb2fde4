"""Split the blocks of one JSON array into its elements.

Memory stays bounded: an element longer than any counts-only object ends the reading.
"""

import re
from collections.abc import Iterator
from typing import Final

from detectors.errors import UnreadableLogError
from detectors.formats.sources import MAX_LINE_BYTES, too_long

_WHITESPACE: Final = b" \t\r\n"
# A string is passed over whole; a quote that opens none is the start of one cut off.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)

_ATOM: Final = rb'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"'
_DEPTH: Final = 6  # of the deepest allowed object, and a little more


def _balanced(depth: int) -> bytes:
    """A pattern for what brackets of this depth may hold; possessive, so it takes linear time."""
    if not depth:
        return _ATOM
    inner = _balanced(depth - 1)
    return rb"%s|\{(?:%s)*+\}|\[(?:%s)*+\]" % (_ATOM, inner, inner)


# A whole element at once, where it is an ordinary object and its end is in sight.
_ELEMENT: Final = re.compile(rb"\s*+\{(?:%s)*+\}\s*+," % _balanced(_DEPTH - 1), re.DOTALL)


def split_array(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The elements of the JSON array that the text is, as texts, those of a block at a time.

    Raises `UnreadableLogError` where the array breaks off or something follows it.
    """
    splitter = _ArraySplitter()
    for block in blocks:
        yield splitter.feed(block)
        splitter.check()
    splitter.close()


def split_array_start(text: bytes) -> list[bytes]:
    """The complete elements at the beginning of an array that may be cut off or broken."""
    return _ArraySplitter().feed(text)


class _ArraySplitter:
    """Finds the commas between the elements; what is not yet complete waits for more text."""

    def __init__(self) -> None:
        self._text = b""
        self._is_open = False
        self._is_closed = False
        self._is_empty = True

    def feed(self, block: bytes) -> list[bytes]:
        self._text += block
        if not self._is_open:
            self._text = self._text.lstrip(_WHITESPACE)
            self._is_open = bool(self._text)
            self._text = self._text[1:]  # the caller has seen that it is a bracket
        return [] if self._is_closed else self._split()

    def check(self) -> None:
        """Raise where the text after the elements so far cannot be right."""
        if self._is_closed:
            self._text = self._text.strip(_WHITESPACE)
            if self._text:
                raise UnreadableLogError("something follows the end of the JSON array")
        if len(self._text) > MAX_LINE_BYTES:
            raise too_long("object of the array")

    def _split(self) -> list[bytes]:
        """All complete elements; what follows the last comma is kept."""
        items: list[bytes] = []
        start = 0
        while not self._is_closed:
            element = _ELEMENT.match(self._text, start)
            end = element.end() - 1 if element else self._find_end(start)
            if end < 0:
                break
            item = self._text[start:end]
            start = end + 1
            self._is_closed = self._text[end:start] == b"]"
            if not (self._is_closed and self._is_empty and not item.strip(_WHITESPACE)):
                items.append(item)
            self._is_empty = False
        self._text = self._text[start:]
        return items

    def _find_end(self, start: int) -> int:
        """Where the comma or bracket after the element is; -1 where that is not yet there."""
        depth = 0
        for match in _TOKEN.finditer(self._text, start):
            token = match[0]
            if token in b"{[":
                depth += 1
            elif depth and token in b"}]":
                depth -= 1
            elif token == b'"':
                return -1
            elif not depth and token in b",]":
                return match.start()
        return -1

    def close(self) -> None:
        if not self._is_closed:
            raise UnreadableLogError("the JSON array breaks off before its end")
