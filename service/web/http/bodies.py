"""Read a request's body within limits of size, type and encoding."""

import zlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import g, request
from werkzeug.exceptions import HTTPException

from detectors.contract import UsageRecord
from detectors.formats import Version, decode_batch
from service.errors import (
    BadRequestError,
    PayloadTooLargeError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from service.web.http.current import current_config

P = ParamSpec("P")
R = TypeVar("R")

# The largest body of a request that only has a few plain fields.
SMALL_BYTES: Final = 4 * 1024
FORM_TYPES: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
BROKEN_OFF: Final = "The request body is incomplete or its chunked encoding is malformed."
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # accepts a gzip header only


def bounded_body(max_bytes: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Read the body up to this size or the setting's; respond with 413 if it is longer."""

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def read(*args: P.args, **kwargs: P.kwargs) -> R:
            g.max_body_bytes = min(max_bytes, current_config().max_body_bytes)
            read_body(g.max_body_bytes)
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
    announced = request.content_length
    # One byte more, because a body without a length is silently cut at the limit.
    request.max_content_length = max_bytes + 1
    if (announced or 0) <= max_bytes:
        body = _read_body(announced)
        if len(body) <= max_bytes:
            return body
    raise PayloadTooLargeError(f"The body must be at most {max_bytes:,} bytes.")


def _read_body(announced: int | None) -> bytes:
    try:
        body = request.get_data(cache=True)
    except (HTTPException, UnavailableError):
        raise
    except Exception as error:
        # Each server has its own exceptions for incomplete and malformed bodies.
        raise BadRequestError(BROKEN_OFF) from error
    if announced is not None and len(body) < announced:
        # The part that arrived could parse as a complete but different batch.
        raise BadRequestError(BROKEN_OFF)
    return body


def decode_body(version: Version) -> Sequence[UsageRecord]:
    """Return the validated records of an ingest body; raise an error that names the problem."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaTypeError
    return decode_batch(plain_body(), version)


def plain_body() -> bytes:
    """Return the body that `bounded_body` has read, decompressed within the same limit."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        return request.get_data(cache=True)
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedMediaTypeError("Unsupported Content-Encoding. Use gzip or none.")
    return _gunzip(request.get_data(cache=True), g.max_body_bytes)


def _gunzip(packed: bytes, max_bytes: int) -> bytes:
    """Decompress one gzip member, up to the limit."""
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = decoder.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise BadRequestError("The body isn't valid gzip.") from error
    if len(plain) > max_bytes:
        raise PayloadTooLargeError(f"The uncompressed body must be at most {max_bytes:,} bytes.")
    if not decoder.eof or decoder.unused_data:
        raise BadRequestError("The body must be exactly one complete gzip member.")
    return plain
