"""The objects of raw logs: files of JSON lines, arrays or one object, of any size, as texts."""

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import UnreadableLogError
from detectors.formats.archives import Advance
from detectors.formats.json_logs.arrays import split_array
from detectors.formats.sources import read_blocks

MAX_TEXT_BYTES: Final = 32 << 20  # of one object: far more than any model takes in


def read_texts(file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes | None]:
    """Each object of the file as a text of JSON; nothing in place of one beyond all measure."""
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
    """A file of one object that goes over several lines."""
    kept, size = list[bytes](), 0
    for block in blocks:
        kept.append(block)
        size += len(block)
        if size > MAX_TEXT_BYTES:
            raise UnreadableLogError(
                "a JSON object over several lines is too large: write one object a line"
            )
    return b"".join(kept)


def _read_lines(blocks: Iterator[bytes]) -> Iterator[bytes | None]:
    """The lines; one that is too long is thrown away as it comes."""
    kept, size = list[bytes](), 0
    for block in blocks:
        for place, part in enumerate(block.split(b"\n")):
            if place:
                yield b"".join(kept) if size <= MAX_TEXT_BYTES else None
                kept, size = [], 0
            size += len(part)
            if size <= MAX_TEXT_BYTES:
                kept.append(part)
            else:
                kept = []
    yield b"".join(kept) if size <= MAX_TEXT_BYTES else None
