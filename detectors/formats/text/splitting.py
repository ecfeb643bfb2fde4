"""Splits the blocks of a text into whole lines, or into the elements of one JSON array.

Memory stays bounded: a line or an element longer than any counts-only object raises an error.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

import msgspec

from detectors.errors import CutOffLogError, UnreadableLogError

MAX_LINE_BYTES: Final = 8 << 20
# Shorter, because the cells of a row take thirty times their bytes in memory.
MAX_ROW_BYTES: Final = 1 << 20
MAX_DOCUMENT_BYTES: Final = 32 << 20
_WHITESPACE: Final = b" \t\r\n"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_DEPTH: Final = 6  # deeper than any allowed object
_MAX_DEPTH: Final = 1_000
_TOO_DEEP: Final = "An object of the JSON array is nested too deeply: export token counts only."
_MORE_TEXT: Final = (
    "There is more text after the end of the JSON array: use one array, or one object per line."
)
_INCOMPLETE: Final = "The JSON array is incomplete: export the file again."
_TOO_LARGE: Final = (
    f"One JSON object can have up to {MAX_DOCUMENT_BYTES >> 20} MiB: export one object per line."
)
_MARKS: Final = b'"{}[],'
# Reads the texts of elements, and so where they end, without reading what is in them.
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
# The last comma may be after an object within the last element, such as its usage.
_COMMAS_TRIED: Final = 4
_BLANK_END: Final = re.compile(rb"\s*+\]")


def _brackets(depth: int) -> bytes:
    """Return a pattern for complete brackets; possessive, so it takes linear time."""
    inner = rb'[^"{}\[\]]++|%s' % _STRING
    if depth > 1:
        inner += rb"|%s" % _brackets(depth - 1)
    return rb"\{(?:%s)*+\}|\[(?:%s)*+\]" % (inner, inner)


class _Patterns(NamedTuple):
    """The patterns that find the end of an element.

    `element` matches a whole one if it is an ordinary object that is complete. `outside` and
    `inside` match what cannot end an element, as one token; or else a single mark. A single quote
    is the start of an incomplete string.
    """

    element: re.Pattern[bytes]
    outside: re.Pattern[bytes]
    inside: re.Pattern[bytes]


@cache
def _patterns() -> _Patterns:
    """Compile the patterns on first use: it takes longer than reading thousands of lines."""
    # Before 3.11.5, possessive groups take in what they only began to match (CPython's gh-106052).
    # Without nested groups, each bracket is a token of its own.
    if sys.version_info < (3, 11, 5):
        return _Patterns(
            re.compile(rb"(?!)"),
            re.compile(rb'[^"{\[\],]++|%s|["{\[\],]' % _STRING, re.DOTALL),
            re.compile(rb'[^"{}\[\]]++|%s|["{}\[\]]' % _STRING, re.DOTALL),
        )
    nested = _brackets(_DEPTH)
    outside = rb'(?:[^"{\[\],]++|%s|%s)++|["{\[\],]' % (_STRING, nested)
    inside = rb'(?:[^"{}\[\]]++|%s|%s)++|["{}\[\]]' % (_STRING, nested)
    return _Patterns(
        re.compile(rb"\s*+(?=\{)(?:%s)\s*+[,\]]" % nested, re.DOTALL),
        re.compile(outside, re.DOTALL),
        re.compile(inside, re.DOTALL),
    )


def split_lines(
    blocks: Iterator[bytes], chunk_bytes: int, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[bytes]:
    """Yield pieces of about `chunk_bytes` that end at line breaks; the last piece may not.

    If the text becomes unreadable, the whole lines before that point are still yielded first.
    """
    kept: list[bytes] = []
    size = unbroken = 0
    error: UnreadableLogError | None = None
    try:
        for block in blocks:
            end = block.rfind(b"\n") + 1
            if unbroken + (block.find(b"\n") if end else len(block)) > max_line_bytes:
                raise too_long("longest line", max_line_bytes)
            unbroken = len(block) - end + (0 if end else unbroken)
            size += len(block)
            kept.append(block)
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


def join_document(blocks: Iterable[bytes], max_bytes: int | None = None) -> bytes:
    """Return the text of a file with one object over several lines."""
    limit = max_bytes or MAX_DOCUMENT_BYTES
    kept, size = list[bytes](), 0
    for block in blocks:
        size += len(block)
        if size > limit:
            raise UnreadableLogError(_TOO_LARGE)
        kept.append(block)
    return b"".join(kept)


def lines_of(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def has_longer_line(text: bytes, max_bytes: int) -> bool:
    """Check for a line of more bytes, without looking at each line."""
    start, end = 0, len(text)
    while end - start > max_bytes:
        found = text.rfind(b"\n", start, start + max_bytes + 1) + 1
        if not found:
            return True
        start = found
    return False


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


def too_long(what: str, max_bytes: int) -> UnreadableLogError:
    return UnreadableLogError(
        f"The {what} is longer than {max_bytes:,} bytes: export token counts only."
    )


def _split_together(block: bytes, start: int) -> tuple[list[bytes], int]:
    """Return the elements from here to one of the last commas after an object, and what follows.

    Finding them one by one takes three times as long. Return none if these commas aren't between
    two elements, or if the text isn't JSON: then those are found one by one.
    """
    end = len(block)
    for _ in range(_COMMAS_TRIED):
        end = block.rfind(b"},", start, end) + 1
        if not end:
            break
        with suppress(msgspec.MsgspecError, RecursionError):
            return list(map(bytes, _ELEMENTS.decode(b"[%b]" % block[start:end]))), end + 1
    return [], start


def split_array(
    blocks: Iterable[bytes], max_element_bytes: int = MAX_LINE_BYTES
) -> Iterator[list[bytes]]:
    """Yield the texts of the JSON array's elements, one list per block.

    An array that is incomplete or followed by anything raises `UnreadableLogError`.
    """
    splitter = _ArraySplitter(max_element_bytes)
    for block in blocks:
        yield list(splitter.feed(block))
        splitter.check()
    splitter.close()


def split_array_start(text: bytes) -> Iterator[bytes]:
    """Yield the complete elements at the beginning of an array, which may be incomplete."""
    return _ArraySplitter(MAX_LINE_BYTES).feed(text)


def find_elements(text: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where each element of a complete, well-formed array begins and ends; copy nothing."""
    start, element = 1, _patterns().element
    if _BLANK_END.match(text, start):
        return
    while True:
        match = element.match(text, start)
        end = match.end() - 1 if match else _ElementScanner().find_end(text, start)
        if end < 0:
            return
        yield start, end
        start = end + 1


class _ElementScanner:
    """Finds where an element ends. It continues in each block where the last block ended."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_string = False
        self._is_escaped = False  # the last block ended within an escape

    def find_end(self, text: bytes | memoryview, start: int) -> int:
        """Return the position of the comma or bracket after the element; -1 if it is missing."""
        if self._is_in_string:
            start = self._leave_string(text, start + self._is_escaped)
            if start < 0:
                return -1
        patterns = _patterns()
        while match := (patterns.inside if self._depth else patterns.outside).match(text, start):
            mark, start = text[start : start + 1], match.end()
            if start - match.start() > 1 or mark not in _MARKS:
                continue
            if mark in b"{[":
                self._depth += 1
                if self._depth > _MAX_DEPTH:
                    raise UnreadableLogError(_TOO_DEEP)
            elif mark == b'"':
                self._leave_string(text, start)
                return -1
            elif self._depth:
                self._depth -= mark != b","
            elif mark in b",]":
                return match.start()
        return -1

    def _leave_string(self, text: bytes | memoryview, start: int) -> int:
        """Return the position after the string; -1 if it does not end in this block."""
        inner = _IN_STRING.match(text, start)
        end = inner.end() if inner else start  # the pattern always matches
        self._is_in_string = text[end : end + 1] != b'"'
        self._is_escaped = self._is_in_string and end < len(text)
        return -1 if self._is_in_string else end + 1


class _ArraySplitter:
    """Finds the commas between elements; keeps an incomplete element until more text comes."""

    def __init__(self, max_element_bytes: int) -> None:
        self._max_bytes = max_element_bytes
        self._kept: list[bytes] = []  # of an incomplete element
        self._size = 0
        self._scanner = _ElementScanner()
        self._is_open = False
        self._is_closed = False
        self._is_empty = True
        self._is_followed = False

    def feed(self, block: bytes) -> Iterator[bytes]:
        if not self._is_open:
            block = block.lstrip(_WHITESPACE)
            self._is_open = bool(block)
            block = block[1:]  # the opening bracket, which the caller has checked
        start, is_first_whole = 0, True
        while block and not self._is_closed:
            if is_first_whole and not self._kept:
                is_first_whole = False  # tried once, so that no text takes much longer
                items, start = _split_together(block, start)
                yield from items
                self._is_empty = self._is_empty and not items
            element = None if self._kept else _patterns().element.match(block, start)
            end = element.end() - 1 if element else self._scanner.find_end(block, start)
            if end < 0:
                break
            item = block[start:end]
            if self._kept:
                item = b"".join([*self._kept, item])
                self._kept, self._size = [], 0
            self._scanner = _ElementScanner()
            item = item.strip(_WHITESPACE)
            start = end + 1
            self._is_closed = block[end:start] == b"]"
            if item or not (self._is_closed and self._is_empty):
                yield item
            self._is_empty = False
        rest = block[start:]
        if self._is_closed:
            self._is_followed = self._is_followed or bool(rest.strip(_WHITESPACE))
        elif rest:
            self._kept.append(rest)
            self._size += len(rest)

    def check(self) -> None:
        """Raise an error if the text after the elements so far cannot be valid."""
        if self._is_followed:
            raise UnreadableLogError(_MORE_TEXT)
        if self._size > self._max_bytes:
            raise too_long("longest object of the array", self._max_bytes)

    def close(self) -> None:
        if not self._is_closed:
            raise CutOffLogError(_INCOMPLETE)
