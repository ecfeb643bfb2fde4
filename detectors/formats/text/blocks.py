"""Opens a file as blocks of text: unpacked, limited in size, in bounded memory.

A gzip or Zstandard file, or a ZIP archive of one log, is unpacked; every other archive is refused
by name. A file is recognized by its first bytes, never by its name, and no name inside an archive
is kept.
"""

import zlib
from collections.abc import Callable, Iterator
from io import SEEK_END, SEEK_SET
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Final, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from detectors.errors import LogTooLargeError, UnreadableLogError
from detectors.formats.text.encodings import read_start, to_utf8

BLOCK_BYTES: Final = 1 << 20
GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
SQLITE: Final = b"SQLite format 3\x00"
SIGNATURE_BYTES: Final = 512
Advance = Callable[[int], None]

_TAR_MAGIC: Final = slice(257, 262)
_BZIP2_MAGIC: Final = (b"1AY", b"\x17\x72\x45")
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_READ_BYTES: Final = 1 << 20
# After each member of a gzip file, zlib copies the rest of what it was given.
_SLICE_BYTES: Final = 1 << 14
# Four bytes of a frame can be a block of 128 KiB.
_ZSTD_SLICE_BYTES: Final = 256
_ZSTD_WINDOW: Final = 8 << 20
_ZSTD_BROKEN: Final = (
    "This Zstandard file is damaged or needs more than 8 MiB of memory to unpack: create it again, "
    "without --long or --ultra."
)
_ENCRYPTED: Final = 1  # the bit of a ZIP entry's flags
_UNPACK: Final = "unpack it and use the log inside, as it is or as .gz."
_PUT_ONE: Final = "put one log into it."
_REFUSED: Final = {
    b"PK\x05\x06": f"This is an empty ZIP archive: {_PUT_ONE}",
    b"PK\x07\x08": f"This is a part of a split ZIP archive: {_UNPACK}",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "This is an Excel workbook or another Microsoft Office file: export it as CSV."
    ),
    b"7z\xbc\xaf\x27\x1c": f"This is a 7z archive: {_UNPACK}",
    b"Rar!\x1a\x07": f"This is a RAR archive: {_UNPACK}",
    b"\xfd7zXZ\x00": f"This is an xz file: {_UNPACK}",
    b"BZh": f"This is a bzip2 file: {_UNPACK}",
    SQLITE: (
        "This is a SQLite database: run `tallystick scrub` on it and use the file that it writes."
    ),
    b"PAR1": "This is a Parquet file: export it as CSV or JSON Lines.",
    b"%PDF-": "This is a PDF: export the usage as CSV or JSON Lines.",
}
_TAR: Final = f"This is a tar archive: {_UNPACK}"
_EXCEL: Final = "This is an Excel workbook: export it as CSV."
_OFFICE: Final = "This is an Office document: export the usage as CSV."
_SEVERAL: Final = "This is a ZIP archive with several files: use one log at a time."
_NO_FILE: Final = f"This is a ZIP archive without a file in it: {_PUT_ONE}"
_LOCKED: Final = f"This is an encrypted ZIP archive: {_UNPACK}"
_METHOD: Final = f"This ZIP archive uses an unusual compression method: {_UNPACK}"
_NESTED: Final = f"This is an archive inside another archive: {_UNPACK}"
_BROKEN: Final = "This ZIP archive is damaged or incomplete: create it again."


def read_blocks(
    file: BinaryIO,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> Iterator[bytes]:
    """Yield the file's bytes in blocks, unpacked, in UTF-8 and without a byte order mark.

    All blocks except the last have at least `block_bytes`, however small the pieces of the file
    are, because every later step has a cost per block. `advance` receives how many bytes of the
    file itself were read so far, again for each block that is unpacked. More than `max_bytes`,
    packed or unpacked, raise `LogTooLargeError` before the excess is yielded, and an archive that
    is damaged, incomplete or of an unsupported kind `UnreadableLogError`.
    """
    progress = _Progress(advance)

    def read_raw() -> Iterator[bytes]:
        total = 0
        while block := file.read(block_bytes):
            if not isinstance(block, bytes):
                raise UnreadableLogError("Open the file in binary mode.")
            total += len(block)
            progress.advance(total)
            yield block

    raw = _bounded(read_raw(), max_bytes)
    start = read_start(raw, SIGNATURE_BYTES)
    refuse_archive(start, is_unpacked=False)
    blocks: Iterator[bytes] = chain([start], raw)
    if is_packed(start):
        unpacked = gunzip(blocks, block_bytes) if start.startswith(GZIP) else None
        unpacked = unpack_zstd(blocks) if start.startswith(ZSTD) else unpacked
        unpacked = unpacked or _unzip(file, blocks, block_bytes, max_bytes, progress.advance)
        blocks = _bounded(unpacked, max_bytes)
        start = read_start(blocks, SIGNATURE_BYTES)
        refuse_archive(start, is_unpacked=True)
        blocks = chain([start], blocks)
    return map(progress.repeat, _filled(to_utf8(blocks), block_bytes))


class _Progress:
    """Reports how many bytes of the file were read, again for each block that they unpack to."""

    def __init__(self, advance: Advance | None) -> None:
        self._advance = advance
        self._done = 0

    def advance(self, done: int) -> None:
        self._done = done
        if self._advance:
            self._advance(done)

    def repeat(self, block: bytes) -> bytes:
        if self._advance:
            self._advance(self._done)
        return block


def _filled(blocks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Join small blocks. What came before an unreadable part is still yielded first."""
    kept = bytearray()
    error: UnreadableLogError | None = None
    try:
        for block in blocks:
            if not kept and len(block) >= block_bytes:
                yield block
                continue
            kept += block
            if len(kept) >= block_bytes:
                yield bytes(kept)
                kept.clear()
    except UnreadableLogError as caught:
        error = caught
    if kept:
        yield bytes(kept)
    if error:
        raise error


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


def _bounded(blocks: Iterator[bytes], max_bytes: int | None) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise LogTooLargeError(max_bytes)
        yield block


def is_packed(start: bytes) -> bool:
    return start.startswith((GZIP, ZIP, ZSTD))


def refuse_archive(start: bytes, *, is_unpacked: bool) -> None:
    """Raise `UnreadableLogError` if the first bytes are those of an archive or document."""
    for signature, message in _REFUSED.items():
        if start.startswith(signature) and (signature != b"BZh" or start[4:7] in _BZIP2_MAGIC):
            raise UnreadableLogError(message)
    if start[_TAR_MAGIC] == b"ustar":
        raise UnreadableLogError(_TAR)
    if is_unpacked and is_packed(start):
        raise UnreadableLogError(_NESTED)


def gunzip(blocks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of one or more gzip members, never more than a block at a time."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    for pending in _slices(blocks):
        while pending:
            if unpacker.eof:
                pending = pending.lstrip(b"\0")  # padding between members
                if not pending:
                    break
                unpacker = zlib.decompressobj(_GZIP_WINDOW)
            try:
                piece = unpacker.decompress(pending, block_bytes)
            except zlib.error:
                raise UnreadableLogError("This gzip file is damaged: create it again.") from None
            if piece:
                yield piece
            pending = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    if not unpacker.eof:
        raise UnreadableLogError("This gzip file is incomplete: create it again.")


def unpack_zstd(blocks: Iterator[bytes]) -> Iterator[bytes]:
    from zstandard import ZstdDecompressor, ZstdError  # which most logs don't need

    unpacker = ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    frame = unpacker.decompressobj()
    for pending in _slices(blocks, _ZSTD_SLICE_BYTES):
        while pending:
            if frame.eof:
                frame = unpacker.decompressobj()
            try:
                piece = frame.decompress(pending)
            except ZstdError:
                raise UnreadableLogError(_ZSTD_BROKEN) from None
            if piece:
                yield piece
            pending = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise UnreadableLogError("This Zstandard file is incomplete: create it again.")


def _slices(blocks: Iterator[bytes], size: int = _SLICE_BYTES) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]


def unzip(file: BinaryIO, block_bytes: int, advance: Advance | None = None) -> Iterator[bytes]:
    """Yield the bytes of the only log in a ZIP archive, checked against its CRC at the end.

    The file must be seekable, since the directory of an archive is at its end. `advance` receives
    how many bytes of the archive were read so far.
    """
    try:
        archive = ZipFile(cast(IO[bytes], _ShortReads(file, advance)))
        entries = [
            entry
            for entry in archive.infolist()
            if not (entry.is_dir() or entry.filename.startswith("__MACOSX/"))
        ]
        names = [entry.filename for entry in entries]
        if any(name.startswith("xl/") for name in names):
            raise UnreadableLogError(_EXCEL)
        if "[Content_Types].xml" in names or "content.xml" in names:
            raise UnreadableLogError(_OFFICE)
        if len(entries) != 1:
            raise UnreadableLogError(_SEVERAL if entries else _NO_FILE)
        if entries[0].flag_bits & _ENCRYPTED:
            raise UnreadableLogError(_LOCKED)
        if entries[0].compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise UnreadableLogError(_METHOD)
        with archive, archive.open(entries[0]) as log:
            while block := log.read(block_bytes):
                yield block
    except _ZIP_ERRORS:
        # The library's own messages would repeat names from the archive.
        raise UnreadableLogError(_BROKEN) from None


_ZIP_ERRORS: Final = (
    BadZipFile,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
    zlib.error,
)


class _ShortReads:
    """A file that refuses large reads, which only a ZIP directory of very many files needs."""

    def __init__(self, file: BinaryIO, advance: Advance | None) -> None:
        self._file = file
        self._advance = advance
        self._furthest = 0
        self.tell = file.tell
        self.seekable = file.seekable

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        if offset < 0 and whence == SEEK_SET:
            raise BadZipFile
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if size > _READ_BYTES:
            raise UnreadableLogError(_SEVERAL)
        piece = self._file.read(size if size >= 0 else _READ_BYTES)
        position = self._file.tell()
        if self._advance and position > self._furthest:
            self._furthest = position
            self._advance(position)
        return piece
