"""Converts text in UTF-16, as spreadsheets export it, to UTF-8, and removes byte order marks."""

from codecs import iterdecode
from collections.abc import Iterator
from itertools import chain
from typing import Final

UTF8_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_START_BYTES: Final = 4


def to_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Return the blocks of the same text in UTF-8, without a byte order mark."""
    start = read_start(blocks, _START_BYTES)
    encoding = find_utf16(start)
    if encoding is None:
        return chain([start.removeprefix(UTF8_BOM)], blocks)
    has_mark = start[:2] in _UTF16_BOMS
    rest = chain([start[2:] if has_mark else start], blocks)
    return map(str.encode, iterdecode(rest, encoding, errors="replace"))


def find_utf16(start: bytes) -> str | None:
    """Return the kind of UTF-16 that a text begins with, or None.

    Without a byte order mark, the text begins with two ASCII characters in two bytes each.
    """
    if start[:2] in _UTF16_BOMS:
        return _UTF16_BOMS[start[:2]]
    is_zero = [byte == 0 for byte in start[:_START_BYTES]]
    if is_zero == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if is_zero == [True, False, True, False] else None


def read_start(blocks: Iterator[bytes], size: int) -> bytes:
    start = b""
    while len(start) < size and (block := next(blocks, b"")):
        start += block
    return start
