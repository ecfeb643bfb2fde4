"""Compress report documents, most of which is the same in every report.

A packed document is the number of its dictionary in one byte, and zlib streams. A document that
isn't packed begins with a brace. Dictionaries are files next to this module: never change one,
because stored documents need it; add the next number instead.
"""

import zlib
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.types import TypeDecorator

# The dictionary of new documents.
NEWEST: Final = 1
# What reports have in common is their end; far from the beginning, a stream forgets its dictionary.
_END: Final = 16_384
_BRACE: Final = ord("{")


def pack(document: bytes) -> bytes:
    """Return the document in a tenth of its size or less."""
    return bytes([NEWEST]) + _compress(document[:-_END]) + _compress(document[-_END:])


def unpack(stored: bytes) -> bytes:
    """Return the document, whether or not it was packed."""
    if not stored or stored[0] == _BRACE:
        return stored
    parts, left = list[bytes](), stored[1:]
    while left:
        stream = zlib.decompressobj(zdict=_dictionary(stored[0]))
        parts += (stream.decompress(left), stream.flush())
        left = stream.unused_data
    return b"".join(parts)


class PackedBytes(TypeDecorator[bytes]):
    """A document that reads the same whether or not it was packed since it was written."""

    impl = LargeBinary
    cache_ok = True

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        return None if value is None else unpack(bytes(value))


def _compress(part: bytes) -> bytes:
    stream = zlib.compressobj(level=9, memLevel=9, zdict=_dictionary(NEWEST))
    return stream.compress(part) + stream.flush()


@cache
def _dictionary(number: int) -> bytes:
    return Path(__file__).with_name(f"report_dictionary_{number}.txt").read_bytes()
