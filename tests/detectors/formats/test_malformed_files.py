"""Sixty files that are no log: refused with what was expected, and without repeating input."""

import gzip
import json
import zlib
from io import BytesIO
from typing import Any, Final

import pytest

from detectors.errors import LogTooLargeError, UnreadableLogError
from detectors.formats import read_chunks
from tests.cases import each_case
from tests.detectors.formats.sentences import is_one_sentence

CANARY: Final = b"CANARY the customer said"
LINE: Final = json.dumps(
    {
        "created": 1_767_225_600,
        "model": "gpt-5.4",
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    }
).encode()
PACKED: Final = gzip.compress((LINE + b"\n") * 50, mtime=0)

MALFORMED: Final = [
    b"", b"\n", b" \t\r\n" * 9, b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\x00", b"\x00" * 4096,
    bytes(range(256)), bytes(range(256)) * 999, b"\xff\xfe" + CANARY.decode().encode("utf-16-le"),
    CANARY.decode().encode("utf-16"), LINE.decode().encode("utf-32"), LINE[:-1], LINE[1:],
    LINE[: len(LINE) // 2], LINE.replace(b'"', b"'"), LINE[:-1] + b"\n" + LINE[:-2],
    CANARY, CANARY * 9_999, CANARY + b"\n" + CANARY, b"# " + CANARY, b"--\n" + CANARY,
    b"CANARY,CANARY\nCANARY,CANARY", b"ts,CANARY\n1,2", b"CANARY|ts|model\n1|2|3",
    b'"' + CANARY, b'"' + CANARY + b'"', b'"ts,provider,model,' + CANARY, b"'ts','model'\n1,2",
    b"<html>" + CANARY + b"</html>", b"%PDF-1.7\n" + CANARY, b"PK\x03\x04" + CANARY,
    b"\x89PNG\r\n\x1a\n" + CANARY, b"PAR1" + CANARY, b"SQLite format 3\x00", b"\x7fELF\x02",
    b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"-----BEGIN PRIVATE KEY-----\n",
    b"{}", b"{}\n{}", b"[]", b"[ ]", b"[]\n" + LINE, b"[[]]", b"[1, 2]", b'["CANARY"]', b"[{}]",
    b"null", b"5", b'"CANARY"', b"true\ntrue", b'{"a": "CANARY"}', b'{"prompt": "CANARY"}',
    b"[" + LINE, b"[" + LINE + b",", b"[" + LINE + b"]]", b"[" + LINE + b"]\n" + LINE,
    b"[" + LINE + b"] CANARY", b"[" + LINE[:-1] + b"]", b"[" * 100_000, b"[" * 9 + b"]" * 9,
    b'{"a":' * 100_000, b"[" + b'{"a":' * 100_000,
    json.dumps(json.loads(LINE), indent=2).encode(),
    b"\x1f\x8b", b"\x1f\x8bCANARY", PACKED[:10], PACKED[:-1], PACKED[:-8],
    PACKED[: len(PACKED) // 2],
    PACKED + b"CANARY", PACKED[:-5] + b"\x00" + PACKED[-4:], gzip.compress(b"", mtime=0),
    gzip.compress(CANARY, mtime=0), gzip.compress(PACKED, mtime=0), zlib.compress(LINE),
    LINE[:-2] + b" " * (9 << 20) + b"}}", b"x" * (9 << 20), b"[" + LINE[:-2] + b" " * (9 << 20),
]  # fmt: skip


def test_the_corpus_holds_sixty_files() -> None:
    assert len(MALFORMED) >= 60


@each_case("raw", MALFORMED)
def test_a_malformed_file_is_refused_with_what_was_expected(raw: bytes) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        list(read_chunks(BytesIO(raw)))
    assert "CANARY" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert is_one_sentence(str(caught.value))


def rows(raw: bytes, **options: Any) -> int:
    return sum(chunk.rows for chunk in read_chunks(BytesIO(raw), **options))


@each_case(
    "raw",
    [
        PACKED,
        gzip.compress(LINE + b"\n" + LINE, 0),
        gzip.compress(b"\xef\xbb\xbf" + LINE),
        gzip.compress(LINE + b"\n") + gzip.compress(LINE),
        gzip.compress(LINE) + b"\x00" * 512,
        gzip.compress(b"[" + LINE + b"]"),
    ],
)
def test_gzip_is_unpacked_whatever_the_name_and_however_it_is_cut(raw: bytes) -> None:
    expected = gzip.decompress(raw)
    assert rows(raw) == rows(expected)
    assert all(rows(raw, chunk_bytes=size) == rows(expected) for size in range(1, len(raw) + 2))


def test_bytes_are_bounded_packed_and_unpacked() -> None:
    log = (LINE + b"\n") * 1_000
    assert rows(log, max_bytes=len(log)) == 1_000
    assert rows(gzip.compress(log), max_bytes=len(log)) == 1_000
    for raw in (log, gzip.compress(log), gzip.compress(log, 0)):
        with pytest.raises(LogTooLargeError) as caught:
            rows(raw, max_bytes=len(log) - 1)
        assert caught.value.max_bytes == len(log) - 1


@pytest.mark.parametrize("size", [32 << 20, pytest.param(256 << 20, marks=pytest.mark.stress)])
def test_a_gzip_bomb_is_stopped_in_little_memory(size: int) -> None:
    bomb = gzip.compress(b"\n" * size)
    assert len(bomb) < size >> 8
    with pytest.raises(LogTooLargeError):
        rows(bomb, max_bytes=size >> 5)


def test_progress_counts_the_files_own_bytes() -> None:
    heard: list[int] = []
    list(read_chunks(BytesIO(PACKED), chunk_bytes=16, advance=heard.append))
    assert heard == sorted(heard)
    assert heard[-1] == len(PACKED)
