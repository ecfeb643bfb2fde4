"""From the request's body to a temporary file, within bounds, before anything looks at it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from tempfile import TemporaryFile
from typing import BinaryIO, Final, ParamSpec, TypeVar, cast

from flask import request

from service.errors import (
    BadRequestError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
from service.web.http.bodies import read_blocks
from service.web.http.current import current_config
from service.web.http.storage import storage_needed
from service.web.intake.multipart import MAX_OVERHEAD_BYTES, FileSink, TokenCheck, copy_file

P = ParamSpec("P")
R = TypeVar("R")

# RFC 2046, 5.1.1; another could not be told from what it separates.
_MAX_BOUNDARY_LENGTH: Final = 70


@dataclass(frozen=True)
class ReceivedFile:
    """An uploaded file, at its beginning; gone as soon as it is closed."""

    file: BinaryIO
    size: int
    sha256: bytes


def bounded_upload(view: Callable[P, R]) -> Callable[P, R]:
    """Refuse at once, with 413, a body that says to be too large for one file."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        max_bytes = current_config().max_upload_bytes
        # What comes without a length is counted while it streams.
        request.max_content_length = max_bytes + MAX_OVERHEAD_BYTES
        if (request.content_length or 0) > max_bytes + MAX_OVERHEAD_BYTES:
            raise PayloadTooLargeError(f"The file must be at most {max_bytes:,} bytes.")
        return view(*args, **kwargs)

    return checked


@contextmanager
def received_file(check_token: TokenCheck | None = None) -> Iterator[ReceivedFile]:
    """The request's one file, in a temporary file that has no name and so cannot be left behind.

    With `check_token` it comes from a form, whose token that judges before the file is looked at.
    """
    boundary, config = _boundary(), current_config()
    with storage_needed(), TemporaryFile(dir=config.upload_folder or None, buffering=0) as spool:
        file = cast(BinaryIO, spool)
        sink = FileSink(file, config.max_upload_bytes, check_token)
        copy_file(read_blocks(), boundary, sink)
        file.seek(0)
        yield ReceivedFile(file, sink.size, sink.sha256)


def _boundary() -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if request.mimetype != "multipart/form-data" or encoding != "identity":
        raise UnsupportedMediaTypeError("Send the file as multipart/form-data, not encoded.")
    boundary = request.mimetype_params.get("boundary", "")
    if not (boundary.isascii() and 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH):
        raise BadRequestError("The Content-Type names no boundary, or none that can be one.")
    return boundary.encode("ascii")
