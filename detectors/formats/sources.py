"""Where bytes come from: files and streams in blocks, unpacked where they are gzip, bounded."""

import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import LogTooLargeError, UnreadableLogError

GZIP_MAGIC: Final = b"\x1f\x8b"
BLOCK_BYTES: Final = 1 << 20
UTF8_BOM: Final = b"\xef\xbb\xbf"
MAX_LINE_BYTES: Final = 8 << 20
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS

Advance = Callable[[int], None]


def read_blocks(
    file: BinaryIO,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> Iterator[bytes]:
    """The file's bytes in blocks, unpacked and without a byte order mark.

    `advance` hears how many bytes of the file itself were read so far.

    Raises
    ------
    LogTooLargeError
        More than `max_bytes`, packed or unpacked; raised before the excess is handed on.
    UnreadableLogError
        The file is gzip and broken or cut off.
    """
    packed = _read_raw(file, block_bytes, max_bytes, advance)
    start = _read_start(packed, len(GZIP_MAGIC))
    blocks: Iterator[bytes] = chain([start], packed)
    if start.startswith(GZIP_MAGIC):
        blocks = _bounded(_unpack(blocks, block_bytes), max_bytes)
    text = _read_start(blocks, len(UTF8_BOM))
    return chain([text.removeprefix(UTF8_BOM)], blocks)


def _read_raw(
    file: BinaryIO, block_bytes: int, max_bytes: int | None, advance: Advance | None
) -> Iterator[bytes]:
    total = 0
    while block := file.read(block_bytes):
        if not isinstance(block, bytes):
            raise UnreadableLogError("expected a file that is open in binary mode")
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise LogTooLargeError(max_bytes)
        if advance:
            advance(total)
        yield block


def _read_start(blocks: Iterator[bytes], size: int) -> bytes:
    """The first blocks, as many as it takes for `size` bytes."""
    start = b""
    while len(start) < size and (block := next(blocks, b"")):
        start += block
    return start


def _unpack(blocks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """The unpacked bytes of one or more gzip members, never more than a block at a time."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    for block in blocks:
        pending = block
        while pending:
            if unpacker.eof:
                pending = pending.lstrip(b"\0")  # padding between members
                if not pending:
                    break
                unpacker = zlib.decompressobj(_GZIP_WINDOW)
            try:
                piece = unpacker.decompress(pending, block_bytes)
            except zlib.error:
                raise UnreadableLogError("the gzip file is broken") from None
            if piece:
                yield piece
            pending = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    if not unpacker.eof:
        raise UnreadableLogError("the gzip file breaks off before its end")


def _bounded(blocks: Iterator[bytes], max_bytes: int | None) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise LogTooLargeError(max_bytes)
        yield block


def split_lines(blocks: Iterator[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """The text in pieces of about `chunk_bytes` that end at line breaks (the last may not).

    Where the text turns unreadable, the whole lines before that place still come first.
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


def _check_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    unbroken = 0
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if unbroken + (block.find(b"\n") if end else len(block)) > MAX_LINE_BYTES:
            raise too_long("line")
        unbroken = len(block) - end + (0 if end else unbroken)
        yield block


def find_line_start(blocks: Iterator[bytes]) -> int | None:
    """How many bytes it is to the next line, or to the text's end; none within a line too long."""
    seen = 0
    for block in blocks:
        end = block.find(b"\n") + 1
        if end:
            return seen + end
        seen += len(block)
        if seen > MAX_LINE_BYTES:
            return None
    return seen


def too_long(what: str) -> UnreadableLogError:
    return UnreadableLogError(
        f"a {what} is longer than {MAX_LINE_BYTES:,} bytes: a line of counts is far shorter"
    )
