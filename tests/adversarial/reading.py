"""Read an attack as the service does, without its web process."""

from contextlib import suppress
from io import BytesIO
from typing import Final

from detectors.errors import DetectorError
from detectors.formats import V2, decode_batch, encode_chunk, read_chunks

READ_BYTES: Final = 128 * 1024


def read_file(text: bytes) -> None:
    with suppress(DetectorError):
        for chunk in read_chunks(BytesIO(text), chunk_bytes=READ_BYTES, max_bytes=200 << 20):
            encode_chunk(chunk)


def read_body(text: bytes) -> None:
    with suppress(DetectorError):
        decode_batch(memoryview(text), V2)
