"""Archives and documents: refused by signature and by name, or unpacked where they hold one log."""

import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

import detectors
from detectors.errors import LogTooLargeError, UnreadableLogError
from detectors.formats import read_chunks
from tests.cases import each_case

LINE = (
    b'{"created":1767225600,"model":"gpt-5.4","usage":{"prompt_tokens":10,"completion_tokens":2}}\n'
)
LOG = LINE * 50
SECRET = "CANARY-of-a-customer.jsonl"
STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


def zip_of(*entries: tuple[str, bytes], method: int = DEFLATED) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def streamed_zip(method: int) -> bytes:
    """An archive written to a pipe: sizes and CRC follow the data."""
    file = BytesIO()
    file.seekable = lambda: False  # type: ignore[method-assign]
    with zipfile.ZipFile(file, "w", method) as archive, archive.open(SECRET, "w") as entry:
        entry.write(LOG)
    return file.getvalue()


def tar_of(content: bytes) -> bytes:
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(SECRET)
        entry.size = len(content)
        archive.addfile(entry, BytesIO(content))
    return file.getvalue()


def encrypted(archive: bytes) -> bytes:
    """The archive with the flag of encryption set in its header and in its directory."""
    local, central = archive.index(b"PK\x03\x04") + 6, archive.index(b"PK\x01\x02") + 8
    changed = bytearray(archive)
    changed[local] |= 1
    changed[central] |= 1
    return bytes(changed)


class Pipe(io.RawIOBase):
    """A stream that can only be read in order."""

    def __init__(self, content: bytes) -> None:
        self._content = BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)


def rows(raw: bytes | BinaryIO, **options: Any) -> int:
    file = BytesIO(raw) if isinstance(raw, bytes) else raw
    return sum(chunk.rows for chunk in read_chunks(file, **options))


ONE_LOG = {
    "deflated": zip_of((SECRET, LOG)),
    "stored": zip_of((SECRET, LOG), method=STORED),
    "in a folder": zip_of(("logs/", b""), (f"logs/{SECRET}", LOG)),
    "from macOS": zip_of((SECRET, LOG), (f"__MACOSX/._{SECRET}", b"\x00" * 99)),
    "streamed, deflated": streamed_zip(DEFLATED),
    "streamed, stored": streamed_zip(STORED),
    "with a byte order mark": zip_of((SECRET, b"\xef\xbb\xbf" + LOG)),
}


@pytest.mark.parametrize("raw", ONE_LOG.values(), ids=ONE_LOG)
def test_a_zip_of_one_log_is_read_like_the_log(raw: bytes, tmp_path: Path) -> None:
    assert rows(raw) == 50
    assert rows(cast(BinaryIO, Pipe(raw))) == 50
    assert all(rows(raw, chunk_bytes=size) == 50 for size in (1, 7, 300))
    path = tmp_path / "usage.log"
    path.write_bytes(raw)
    assert detectors.audit(path).audit.records == 50


BIG = random.Random(5).randbytes(2_000)
REFUSED = {
    "no entry": (zip_of(), "This is an empty ZIP archive."),
    "only a folder": (zip_of(("logs/", b"")), "without a file"),
    "several files": (zip_of(("a.jsonl", LOG), (SECRET, LOG)), "several files"),
    "several stored files": (zip_of(("a", LOG), (SECRET, LOG), method=STORED), "several files"),
    "a readme first": (zip_of(("README", b"CANARY"), (SECRET, LOG)), "several files"),
    "encrypted": (encrypted(zip_of((SECRET, LOG), method=STORED)), "encrypted ZIP archive"),
    "LZMA inside": (zip_of((SECRET, LOG), method=zipfile.ZIP_LZMA), "compression method"),
    "a split archive": (b"PK\x07\x08" + zip_of((SECRET, LOG)), "split ZIP archive"),
    "cut off": (zip_of((SECRET, LOG))[:-30], "damaged or incomplete"),
    "a wrong CRC": (
        zip_of((SECRET, LOG), method=STORED).replace(b'tokens":10', b'tokens":19', 1),
        "damaged or incomplete",
    ),
    "a zip in a zip": (zip_of((SECRET, zip_of((SECRET, LOG)))), "inside another archive"),
    "a gzip in a zip": (zip_of((SECRET, gzip.compress(LOG))), "inside another archive"),
    "an Excel workbook": (
        zip_of(("[Content_Types].xml", b"<x/>"), ("xl/workbook.xml", b"<x/>"), ("xl/a", LOG)),
        "This is an Excel workbook: export it as CSV.",
    ),
    "a Word document": (
        zip_of(("[Content_Types].xml", b"<x/>"), ("word/document.xml", b"<x/>")),
        "Office document",
    ),
    "an older Excel workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + LOG, "Excel workbook"),
    "7z": (b"7z\xbc\xaf\x27\x1c\n" + LOG, "7z archive"),
    "RAR": (b"Rar!\x1a\x07\x01\x00\n" + LOG, "RAR archive"),
    "tar": (tar_of(LOG), "tar archive"),
    "tar.gz": (gzip.compress(tar_of(LOG)), "tar archive"),
    "xz": (lzma.compress(LOG), "xz file"),
    "bzip2": (bz2.compress(LOG), "bzip2 file"),
    "bzip2 of nothing": (bz2.compress(b""), "bzip2 file"),
    "Zstandard": (b"\x28\xb5\x2f\xfd\n" + LOG, "Zstandard file"),
    "Parquet": (b"PAR1\n" + LOG + b"PAR1", "Parquet file"),
    "PDF": (b"%PDF-1.7\n" + LOG, "This is a PDF"),
}


@each_case(("raw", "message"), REFUSED.values())
def test_any_other_archive_or_document_is_refused_by_name(raw: bytes, message: str) -> None:
    _check_refused(raw, message)


def _check_refused(raw: bytes, message: str) -> None:
    for file in (BytesIO(raw), Pipe(raw)):
        with pytest.raises(UnreadableLogError, match=message) as caught:
            rows(cast(BinaryIO, file))
        assert "CANARY" not in str(caught.value)


def test_an_archive_of_thirty_thousand_files_is_refused_by_name() -> None:
    names = (f"CANARY-{number:>050}" for number in range(30_000))
    raw = zip_of(*((name, b"") for name in names), method=STORED)
    _check_refused(raw, "several files")


def test_a_damaged_zip_is_refused_wherever_it_is_damaged() -> None:
    raw = zip_of((SECRET, LOG + BIG))
    for place in range(0, len(raw), 3):
        damaged = raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :]
        said = ""
        try:
            rows(damaged)
        except (UnreadableLogError, detectors.ContractError) as error:
            said = str(error)
        assert "CANARY" not in said


def test_a_zip_is_bounded_packed_and_unpacked() -> None:
    for raw in (zip_of((SECRET, LOG)), zip_of((SECRET, LOG), method=STORED)):
        assert rows(raw, max_bytes=len(LOG) + 500) == 50
        for file in (BytesIO(raw), Pipe(raw)):
            with pytest.raises(LogTooLargeError):
                rows(cast(BinaryIO, file), max_bytes=len(LOG) - 1)
    with pytest.raises(LogTooLargeError):
        rows(zip_of((SECRET, LOG), ("x", BIG)), max_bytes=1_000)


@pytest.mark.parametrize("size", [32 << 20, pytest.param(256 << 20, marks=pytest.mark.stress)])
def test_a_zip_bomb_is_stopped_early(size: int) -> None:
    bomb = zip_of((SECRET, b"\n" * size))
    assert len(bomb) < size >> 8
    with pytest.raises(LogTooLargeError):
        rows(bomb, max_bytes=size >> 5)


def test_progress_ends_at_the_size_of_the_archive() -> None:
    raw, received = zip_of((SECRET, LOG)), list[int]()
    assert rows(raw, advance=received.append) == 50
    assert max(received) == len(raw)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of another kind")
def test_the_command_reads_a_zip_from_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detectors", "audit", "-", "--json", "-"],
        input=ONE_LOG["stored"], capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert b'"records":50' in done.stdout.replace(b" ", b"")
