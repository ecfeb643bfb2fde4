"""Reads files and streams in blocks: unpacked, and limited in size."""

from collections.abc import Iterator
from io import SEEK_END
from itertools import chain
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from detectors.errors import LogTooLargeError, UnreadableLogError
from detectors.formats.archives import (
    GZIP,
    SIGNATURE_BYTES,
    Advance,
    gunzip,
    is_packed,
    refuse_archive,
    unzip,
)

BLOCK_BYTES: Final = 1 << 20
UTF8_BOM: Final = b"\xef\xbb\xbf"
MAX_LINE_BYTES: Final = 8 << 20


def read_blocks(
    file: BinaryIO,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> Iterator[bytes]:
    """Yield the file's bytes in blocks, unpacked and without a byte order mark.

    `advance` receives how many bytes of the file itself were read so far.

    Raises
    ------
    LogTooLargeError
        More than `max_bytes`, packed or unpacked; raised before the excess is yielded.
    UnreadableLogError
        The file is an archive that is damaged, incomplete or of an unsupported kind.
    """
    raw = _read_raw(file, block_bytes, max_bytes, advance)
    start = _read_start(raw, SIGNATURE_BYTES)
    refuse_archive(start, is_unpacked=False)
    blocks: Iterator[bytes] = chain([start], raw)
    if is_packed(start):
        unpacked = gunzip(blocks, block_bytes) if start.startswith(GZIP) else None
        unpacked = unpacked or _unzip(file, blocks, block_bytes, max_bytes, advance)
        blocks = _bounded(unpacked, max_bytes)
        start = _read_start(blocks, SIGNATURE_BYTES)
        refuse_archive(start, is_unpacked=True)
        blocks = chain([start], blocks)
    text = _read_start(blocks, len(UTF8_BOM))
    return chain([text.removeprefix(UTF8_BOM)], blocks)


def _unzip(
    file: BinaryIO,
    blocks: Iterator[bytes],
    block_bytes: int,
    max_bytes: int | None,
    advance: Advance | None,
) -> Iterator[bytes]:
    """Unpack an archive in place, or from an unnamed copy if the file is a stream."""
    if getattr(file, "seekable", bool)():
        if max_bytes is not None and file.seek(0, SEEK_END) > max_bytes:
            raise LogTooLargeError(max_bytes)
        yield from unzip(file, block_bytes, advance)
        return
    with TemporaryFile() as copy:
        copy.writelines(blocks)
        yield from unzip(cast(BinaryIO, copy), block_bytes)


def _read_raw(
    file: BinaryIO, block_bytes: int, max_bytes: int | None, advance: Advance | None
) -> Iterator[bytes]:
    total = 0
    while block := file.read(block_bytes):
        if not isinstance(block, bytes):
            raise UnreadableLogError("Open the file in binary mode.")
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise LogTooLargeError(max_bytes)
        if advance:
            advance(total)
        yield block


def _read_start(blocks: Iterator[bytes], size: int) -> bytes:
    """Read blocks until there are `size` bytes."""
    start = b""
    while len(start) < size and (block := next(blocks, b"")):
        start += block
    return start


def _bounded(blocks: Iterator[bytes], max_bytes: int | None) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise LogTooLargeError(max_bytes)
        yield block


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


def _check_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    unbroken = 0
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if unbroken + (block.find(b"\n") if end else len(block)) > MAX_LINE_BYTES:
            raise too_long("longest line")
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


def too_long(what: str) -> UnreadableLogError:
    return UnreadableLogError(
        f"The {what} is longer than {MAX_LINE_BYTES:,} bytes. A line of counts is far shorter."
    )
