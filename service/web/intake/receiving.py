"""Receive the one file of a multipart/form-data body, within bounds, into a temporary file.

Of the rest of the body, only the label is kept, as its uploader typed it: no file name, no type, no
other field. The mapping of a CSV's columns is used for the file and forgotten. The CSRF token of a
form, which comes before its file, is checked and forgotten.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

from detectors.formats import ColumnMapping, read_pairs
from service.errors import (
    BadRequestError,
    InvalidRequestError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
)
from service.web.auth.csrf import TOKEN_FIELD
from service.web.http.bodies import BROKEN_OFF, read_block
from service.web.http.current import current_config
from service.web.http.error_responses import storage_needed

PART_NAME: Final = "file"
LABEL_FIELD: Final = "label"
MAP_FIELD: Final = "map"  # once per column: `theirs=ours`, or `theirs=` to drop it
PROVIDER_FIELD: Final = "provider"
MAX_LABEL_LENGTH: Final = 80
MAX_FIELD_BYTES: Final = 1024  # of a token, a label or a mapped column
MAX_MAPPED: Final = 1_000  # columns
# Bytes of the body in addition to the file: boundaries, headers, a preamble, an epilogue.
MAX_OVERHEAD_BYTES: Final = 512 * 1024
_MALFORMED: Final = "The body isn't valid multipart/form-data, or it is incomplete."
_EXPECTED: Final = f'Send exactly one file in the part "{PART_NAME}", and no other parts.'
# The maximum in RFC 2046, section 5.1.1.
_MAX_BOUNDARY_LENGTH: Final = 70

TokenCheck = Callable[[str | None], None]
TimeCheck = Callable[[], None]


@dataclass(frozen=True)
class ReceivedFile:
    """An uploaded file, at its first byte. Closing it deletes it."""

    file: BinaryIO
    size: int
    fingerprint: bytes  # of the file, and how its columns are read
    label: str  # empty if there is none
    mapping: ColumnMapping | None  # of a CSV with other column names


@contextmanager
def received_file(check_token: TokenCheck | None, check_time: TimeCheck) -> Iterator[ReceivedFile]:
    """Yield the request's one file, in a temporary file without a name, so nothing is left behind.

    With `check_token`, the file comes from a form, and its token is checked before the file.
    `check_time` is called for each block.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if request.mimetype != "multipart/form-data" or encoding != "identity":
        raise UnsupportedMediaTypeError(
            "Send the file as multipart/form-data, without a Content-Encoding."
        )
    boundary, config = request.mimetype_params.get("boundary", ""), current_config()
    if not (boundary.isascii() and 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH):
        raise BadRequestError("The Content-Type header has no valid boundary.")
    with storage_needed(), TemporaryFile(dir=config.upload_folder or None, buffering=0) as spool:
        file = cast(BinaryIO, spool)
        sink = FileSink(file, config.max_upload_bytes, check_token)
        copy_file(_read_blocks(check_time), boundary.encode("ascii"), sink)
        file.seek(0)
        yield ReceivedFile(file, sink.size, sink.fingerprint, sink.label, sink.mapping)


class FileSink:
    """Write the file's bytes to a stream while counting and hashing them.

    A label and mapped columns may come before or after the file. With `check_token`, the token of a
    form comes before the file, and is checked before the file begins.
    """

    def __init__(
        self, stream: BinaryIO, max_bytes: int, check_token: TokenCheck | None = None
    ) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._check_token = check_token
        self._fields: dict[str, bytearray] = {}
        self._mapped: list[bytearray] = []
        self._field: bytearray | None = None  # of the open part; None if it is the file
        self._hash = hashlib.sha256()
        self._has_file = False
        self.size = 0

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    @property
    def label(self) -> str:
        typed = self._fields.get(LABEL_FIELD, bytearray()).decode("utf-8", "replace")
        label = " ".join("".join(char if char.isprintable() else " " for char in typed).split())
        if len(label) > MAX_LABEL_LENGTH:
            raise InvalidRequestError(f"Use at most {MAX_LABEL_LENGTH} characters for the label.")
        return label

    @property
    def fingerprint(self) -> bytes:
        """Return the SHA-256 of the file, or of its SHA-256 and its mapping."""
        if self.mapping is None:
            return self.sha256
        return hashlib.sha256(self.sha256 + "\0".join(self.mapping.parts).encode()).digest()

    @property
    def mapping(self) -> ColumnMapping | None:
        """Return the mapping of columns; raise `ColumnMappingError` for one that is wrong."""
        pairs = [pair.decode("utf-8", "replace") for pair in self._mapped]
        provider = self._fields.get(PROVIDER_FIELD, bytearray()).decode("utf-8", "replace")
        return read_pairs(pairs, provider.strip().lower())

    def take(self, event: Event) -> None:
        """Take headers and bytes; refuse any part except those that are expected."""
        if isinstance(event, Data) and self._field is not None:
            self._field += event.data
            if len(self._field) > MAX_FIELD_BYTES:
                _ = self.label
                raise InvalidRequestError(_EXPECTED)
        elif isinstance(event, Data):
            self.size += len(event.data)
            if self.size > self._max_bytes:
                raise PayloadTooLargeError(f"The file must be at most {self._max_bytes:,} bytes.")
            self._hash.update(event.data)
            self._stream.write(event.data)
        elif (
            isinstance(event, Field) and event.name == MAP_FIELD and len(self._mapped) < MAX_MAPPED
        ):
            self._field = bytearray()
            self._mapped.append(self._field)
        elif isinstance(event, Field):
            may_have_token = self._check_token is not None and not self._has_file
            is_expected = event.name in (LABEL_FIELD, PROVIDER_FIELD) or (
                event.name == TOKEN_FIELD and may_have_token
            )
            if event.name in self._fields or not is_expected:
                raise InvalidRequestError(_EXPECTED)
            self._field = self._fields[event.name] = bytearray()
        elif isinstance(event, File):
            if self._has_file or event.name != PART_NAME:
                raise InvalidRequestError(_EXPECTED)
            _ = self.label  # may be too long
            if self._check_token is not None:
                token = self._fields.get(TOKEN_FIELD)
                self._check_token(None if token is None else token.decode("ascii", "replace"))
            self._field, self._has_file = None, True

    def close(self) -> None:
        if not self._has_file:
            raise InvalidRequestError(_EXPECTED)
        _ = self.label, self.mapping  # may be wrong


def copy_file(blocks: Iterable[bytes], boundary: bytes, sink: FileSink) -> None:
    """Pass the file's bytes to the sink.

    Raise `BadRequestError` for a malformed multipart body, `InvalidRequestError` for one without
    exactly one file, `PayloadTooLargeError` as soon as the file is too large.
    """
    decoder = MultipartDecoder(boundary, max_form_memory_size=MAX_OVERHEAD_BYTES)
    for block in chain(blocks, (None,)):
        # What this block, or the end, completes; never more than a few blocks of bytes.
        events = list[Event]()
        try:
            decoder.receive_data(block)
            while not isinstance(event := decoder.next_event(), NeedData | Epilogue):
                events.append(event)
        except (ValueError, RequestEntityTooLarge) as error:
            raise BadRequestError(_MALFORMED) from error
        for event in events:
            sink.take(event)
    sink.close()


def _read_blocks(check_time: TimeCheck) -> Iterator[bytes]:
    """Yield the body as it arrives; raise `BadRequestError` where it breaks off."""
    received, announced = 0, request.content_length
    while block := read_block():
        received += len(block)
        check_time()
        yield block
    if announced is not None and received < announced:
        raise BadRequestError(BROKEN_OFF)
