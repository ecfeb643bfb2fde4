"""Splits raw logs of any size into the texts of their objects: JSON lines, an array, one object."""

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import UnreadableLogError
from detectors.formats.text.blocks import Advance, read_blocks
from detectors.formats.text.splitting import split_array

MAX_TEXT_BYTES: Final = 32 << 20  # of one object: far more than any model's context


def read_texts(file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes | None]:
    """Yield each object of the file as JSON text; None for an object that is too large."""
    blocks = read_blocks(file, advance=advance)
    head = b""
    for block in blocks:
        head += block
        if head.strip():
            break
    blocks = chain([head], blocks)
    if head.lstrip().startswith(b"["):
        return chain.from_iterable(split_array(blocks))
    if head.lstrip().split(b"\n", 1)[0].strip() == b"{":
        return iter([_read_whole(blocks)])
    return _read_lines(blocks)


def _read_whole(blocks: Iterator[bytes]) -> bytes | None:
    """Read a file with one object over several lines."""
    kept, size = list[bytes](), 0
    for block in blocks:
        kept.append(block)
        size += len(block)
        if size > MAX_TEXT_BYTES:
            raise UnreadableLogError(
                "A JSON object over several lines is too large. Write one object per line."
            )
    return b"".join(kept)


def _read_lines(blocks: Iterator[bytes]) -> Iterator[bytes | None]:
    """Yield the lines; a line that is too long is discarded while it is read."""
    kept, size = list[bytes](), 0
    for block in blocks:
        for index, part in enumerate(block.split(b"\n")):
            if index:
                yield b"".join(kept) if size <= MAX_TEXT_BYTES else None
                kept, size = [], 0
            size += len(part)
            if size <= MAX_TEXT_BYTES:
                kept.append(part)
            else:
                kept = []
    yield b"".join(kept) if size <= MAX_TEXT_BYTES else None
