"""Reading a request's body within bounds: its size, its type, its encoding, its records."""

import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import request
from werkzeug.exceptions import HTTPException

from detectors.contract import UsageRecord
from detectors.formats import decode_batch
from service.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from service.web.http.current import current_config

P = ParamSpec("P")
R = TypeVar("R")

FORM_TYPES: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_BROKEN_OFF: Final = "The body broke off before its end, or is badly chunked."
_BLOCK_BYTES: Final = 128 * 1024  # larger ones no longer fit a core's own cache
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # a gzip header, and nothing else


def bounded_body(view: Callable[P, R]) -> Callable[P, R]:
    """Read the body up to the size limit; a longer one is 413 before anything looks at it."""

    @wraps(view)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        read_body(current_config().max_body_bytes)
        return view(*args, **kwargs)

    return read


def read_body(max_bytes: int) -> bytes:
    """The body as it came; raises `PayloadTooLargeError` without reading more than the limit."""
    announced = request.content_length
    # One byte more, since a body without a length is cut at the limit without a word.
    request.max_content_length = max_bytes + 1
    if (announced or 0) <= max_bytes:
        body = _read_body(announced)
        if len(body) <= max_bytes:
            return body
    raise PayloadTooLargeError(f"The body must be at most {max_bytes:,} bytes.")


def _read_body(announced: int | None) -> bytes:
    try:
        body = request.get_data(cache=True)
    except HTTPException:
        raise
    except Exception as error:
        # Each server has exceptions of its own for a body that breaks off or is badly chunked.
        raise BadRequestError(_BROKEN_OFF) from error
    if announced is not None and len(body) < announced:
        # What arrived may be a whole batch by itself, but not the one that was being sent.
        raise BadRequestError(_BROKEN_OFF)
    return body


def read_blocks() -> Iterator[bytes]:
    """The body as it comes; raises `BadRequestError` where it breaks off."""
    received, announced = 0, request.content_length
    while block := _read_block():
        received += len(block)
        yield block
    if announced is not None and received < announced:
        raise BadRequestError(_BROKEN_OFF)


def _read_block() -> bytes:
    try:
        return request.stream.read(_BLOCK_BYTES)
    except HTTPException:
        raise
    except Exception as error:
        # As above; a read that the system refuses must not pass for a disk that is full.
        raise BadRequestError(_BROKEN_OFF) from error


def decode_body() -> list[UsageRecord]:
    """The records of an ingest body, all of them checked, or an error naming what is wrong."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaTypeError
    return decode_batch(_plain_body())


def _plain_body() -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return request.get_data(cache=True)
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedMediaTypeError("The only Content-Encoding taken here is gzip.")
    return _gunzip(request.get_data(cache=True), current_config().max_body_bytes)


def _gunzip(packed: bytes, max_bytes: int) -> bytes:
    """Unpack one gzip member, never more than the limit however much is packed in it."""
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = decoder.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise BadRequestError("The body is not valid gzip.") from error
    if len(plain) > max_bytes:
        raise PayloadTooLargeError(f"The unpacked body must be at most {max_bytes:,} bytes.")
    if not decoder.eof or decoder.unused_data:
        raise BadRequestError("The body is not one whole gzip member.")
    return plain
