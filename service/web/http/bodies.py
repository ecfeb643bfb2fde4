"""Read a request's body within limits of size, type and encoding.

A large body is received into a file, so that slow senders hold no memory. A request that has all
of it takes its share of a budget of memory, or waits for it, before the body is checked.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from io import SEEK_END
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Final, ParamSpec, TypeVar, cast

from flask import Flask, current_app, g, request
from werkzeug.exceptions import HTTPException

from detectors.contract import UsageRecord
from detectors.formats import Version, decode_batch
from service.core.telemetry.counters import REFUSED_BODIES
from service.errors import (
    BadRequestError,
    PayloadTooLargeError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from service.web.http.current import current_config, without_slot
from service.web.http.error_responses import storage_needed
from service.web.http.shares import Shares

P = ParamSpec("P")
R = TypeVar("R")

# The largest body of a request that only has a few plain fields.
SMALL_BYTES: Final = 4 * 1024
# A larger body of a batch or of spans is received into a file.
SPOOLED_BYTES: Final = 256 * 1024
BLOCK_BYTES: Final = 128 * 1024  # larger blocks exceed a core's own cache
FORM_TYPES: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
BROKEN_OFF: Final = "The request body is incomplete or its chunked encoding is malformed."
# With the wait for a slot, less than the ten seconds in which every request is answered.
WAIT_SECONDS: Final = 4.0
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # accepts a gzip header only
# For the bodies that a web process checks at a time.
_MEMORY_BYTES: Final = 200_000_000
_MEMORY: Final = "body_memory"


def init_body_memory(app: Flask) -> None:
    app.extensions[_MEMORY] = Shares(_MEMORY_BYTES)

    @app.teardown_appcontext
    def give_memory_back(_error: BaseException | None) -> None:
        if taken := g.pop("body_bytes", 0):
            cast(Shares, current_app.extensions[_MEMORY]).give_back(taken)


def bounded_body(max_bytes: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Receive the body up to this size; respond with 413 if it is longer."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def read(*args: P.args, **kwargs: P.kwargs) -> R:
            g.max_body_bytes = max_bytes
            with _spool() as g.body:
                with storage_needed(), without_slot():
                    announced, received = _check_announced(g.max_body_bytes), 0
                    while received <= g.max_body_bytes and (block := read_block()):
                        g.body.write(block)
                        received += len(block)
                    _check_received(received, announced, g.max_body_bytes)
                return view(*args, **kwargs)

        return read

    return decorate


def small_body(view: Callable[P, R]) -> Callable[P, R]:
    """Read the body of a few fields; respond with 413 if it is longer than any could be."""

    @wraps(view)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        read_body(SMALL_BYTES)
        return view(*args, **kwargs)

    return read


def read_body(max_bytes: int) -> bytes:
    """Return the raw body; raise `PayloadTooLargeError` without reading beyond the limit."""
    announced = _check_announced(max_bytes)
    try:
        body = request.get_data(cache=True)
    except (HTTPException, UnavailableError):
        raise
    except Exception as error:
        # Each server has its own exceptions for incomplete and malformed bodies.
        raise BadRequestError(BROKEN_OFF) from error
    _check_received(len(body), announced, max_bytes)
    return body


def _check_announced(max_bytes: int) -> int | None:
    # One byte more, because a body without a length is silently cut at the limit.
    request.max_content_length = max_bytes + 1
    announced = request.content_length
    if (announced or 0) > max_bytes:
        raise PayloadTooLargeError(f"The body must be at most {max_bytes:,} bytes.")
    return announced


def _check_received(received: int, announced: int | None, max_bytes: int) -> None:
    if received > max_bytes:
        raise PayloadTooLargeError(f"The body must be at most {max_bytes:,} bytes.")
    if announced is not None and received < announced:
        # The part that arrived could parse as a complete but different batch.
        raise BadRequestError(BROKEN_OFF)


def read_block() -> bytes:
    """Return the next bytes of the body, and none at its end."""
    try:
        return request.stream.read(BLOCK_BYTES)
    except (HTTPException, UnavailableError):
        raise
    except Exception as error:
        # Servers raise exceptions of their own here, and an OSError would pass for a full disk.
        raise BadRequestError(BROKEN_OFF) from error


def _spool() -> BinaryIO:
    """Return a file without a name, which is in memory while it is small."""
    folder = current_config().upload_folder or None
    return cast(BinaryIO, SpooledTemporaryFile(SPOOLED_BYTES, dir=folder))


def decode_body(version: Version) -> Sequence[UsageRecord]:
    """Return the validated records of an ingest body; raise an error that names the problem."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaTypeError
    return decode_batch(plain_body(), version)


def plain_body() -> bytes | memoryview:
    """Return the body that `bounded_body` has received, decompressed within the same limit.

    One that was received into a file is its memory map. Raises `UnavailableError` if there is no
    memory for it.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return _load(g.body)
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedMediaTypeError("Unsupported Content-Encoding. Use gzip or none.")
    with _spool() as plain, storage_needed():
        decoder, size = zlib.decompressobj(_GZIP_WINDOW), 0
        g.body.seek(0)
        for piece in _unpack(g.body, decoder):
            size += len(piece)
            if size > g.max_body_bytes:
                raise PayloadTooLargeError(
                    f"The uncompressed body must be at most {g.max_body_bytes:,} bytes."
                )
            plain.write(piece)
        if not decoder.eof or decoder.unused_data or g.body.read(1):
            raise BadRequestError("The body must be exactly one complete gzip member.")
        return _load(plain)


def _load(file: BinaryIO) -> bytes | memoryview:
    size = file.seek(0, SEEK_END)
    file.seek(0)
    if size <= SPOOLED_BYTES:
        return file.read()
    _take_memory(size)
    return memoryview(mmap(file.fileno(), size, access=ACCESS_READ))


def _take_memory(size: int) -> None:
    """Take memory until the end of the request; raise `UnavailableError` if none gets free."""
    memory = cast(Shares, current_app.extensions[_MEMORY])
    if memory.take(size):
        g.body_bytes = size
        return
    with without_slot():
        if not memory.take(size, WAIT_SECONDS):
            REFUSED_BODIES.labels("memory").inc()
            raise UnavailableError
        g.body_bytes = size  # before the wait for a slot, which can fail


def _unpack(packed: BinaryIO, decoder: "zlib._Decompress") -> Iterator[bytes]:
    """Yield what the file holds, up to the end of its first member."""
    try:
        while not decoder.eof and (block := packed.read(BLOCK_BYTES)):
            while block and not decoder.eof:
                yield decoder.decompress(block, BLOCK_BYTES)
                block = decoder.unconsumed_tail
        while piece := decoder.decompress(b"", BLOCK_BYTES):
            yield piece
    except zlib.error as error:
        raise BadRequestError("The body isn't valid gzip.") from error
