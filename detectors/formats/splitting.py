"""Splits the blocks of a text into whole lines, or into the elements of one JSON array.

Memory stays bounded: a line or an element longer than any counts-only object raises an error.
"""

import re
from collections.abc import Iterator
from typing import Final

from detectors.errors import UnreadableLogError

MAX_LINE_BYTES: Final = 8 << 20
_WHITESPACE: Final = b" \t\r\n"
# A string is one token; a single quote is the start of an incomplete string.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)

_ATOM: Final = rb'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"'
_DEPTH: Final = 6  # deeper than any allowed object


def _balanced(depth: int) -> bytes:
    """Return a pattern for the content of brackets; possessive, so it takes linear time."""
    if not depth:
        return _ATOM
    inner = _balanced(depth - 1)
    return rb"%s|\{(?:%s)*+\}|\[(?:%s)*+\]" % (_ATOM, inner, inner)


# Matches a whole element if it is an ordinary object that is complete.
_ELEMENT: Final = re.compile(rb"\s*+\{(?:%s)*+\}\s*+," % _balanced(_DEPTH - 1), re.DOTALL)


def split_lines(blocks: Iterator[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Yield pieces of about `chunk_bytes` that end at line breaks; the last piece may not.

    If the text becomes unreadable, the whole lines before that point are still yielded first.
    """
    kept: list[bytes] = []
    size = 0
    error: UnreadableLogError | None = None
    try:
        for block in _check_lines(blocks):
            size += len(block)
            kept.append(block)
            end = block.rfind(b"\n") + 1
            if end and size >= chunk_bytes:
                kept[-1] = block[:end]
                yield b"".join(kept)
                kept, size = [block[end:]], len(block) - end
    except UnreadableLogError as caught:
        error = caught
    rest = b"".join(kept)
    if error:
        rest = rest[: rest.rfind(b"\n") + 1]
    if rest:
        yield rest
    if error:
        raise error


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of a text, without an empty last line."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _check_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    unbroken = 0
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if unbroken + (block.find(b"\n") if end else len(block)) > MAX_LINE_BYTES:
            raise _too_long("longest line")
        unbroken = len(block) - end + (0 if end else unbroken)
        yield block


def find_line_start(blocks: Iterator[bytes]) -> int | None:
    """Return the bytes up to the next line or the end; None within a line that is too long."""
    seen = 0
    for block in blocks:
        end = block.find(b"\n") + 1
        if end:
            return seen + end
        seen += len(block)
        if seen > MAX_LINE_BYTES:
            return None
    return seen


def _too_long(what: str) -> UnreadableLogError:
    return UnreadableLogError(
        f"The {what} is longer than {MAX_LINE_BYTES:,} bytes. A line of counts is far shorter."
    )


def split_array(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield the texts of the JSON array's elements, one list per block.

    An array that is incomplete or followed by anything raises `UnreadableLogError`.
    """
    splitter = _ArraySplitter()
    for block in blocks:
        yield splitter.feed(block)
        splitter.check()
    splitter.close()


def split_array_start(text: bytes) -> list[bytes]:
    """Return the complete elements at the beginning of an array, which may be incomplete."""
    return _ArraySplitter().feed(text)


class _ArraySplitter:
    """Finds the commas between elements; keeps an incomplete element until more text comes."""

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
            self._text = self._text[1:]  # the opening bracket, which the caller has checked
        return [] if self._is_closed else self._split()

    def check(self) -> None:
        """Raise an error if the text after the elements so far cannot be valid."""
        if self._is_closed:
            self._text = self._text.strip(_WHITESPACE)
            if self._text:
                raise UnreadableLogError("There is more text after the end of the JSON array.")
        if len(self._text) > MAX_LINE_BYTES:
            raise _too_long("longest object of the array")

    def _split(self) -> list[bytes]:
        """Return all complete elements; keep the text after the last comma."""
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
        """Return the position of the comma or bracket after the element; -1 if it is missing."""
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
            raise UnreadableLogError("The JSON array is incomplete.")
