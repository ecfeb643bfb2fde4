"""The one file of a multipart/form-data body, as it streams by.

Nothing of the body outlives it but the file's own bytes: no file name, no type, no other field. A
form's token, which comes before its file, is judged and forgotten.
"""

import hashlib
from collections.abc import Callable, Iterable
from itertools import chain
from typing import BinaryIO, Final

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

from service.errors import BadRequestError, InvalidRequestError, PayloadTooLargeError
from service.web.auth.csrf import TOKEN_FIELD

PART_NAME: Final = "file"
_MAX_TOKEN_BYTES: Final = 1024
# What may stand between two boundaries without being the file's: headers, a preamble, an epilogue.
MAX_OVERHEAD_BYTES: Final = 512 * 1024
_MALFORMED: Final = "The body is not well-formed multipart/form-data, or broke off before its end."
_EXPECTED: Final = f'Send one file, as the part "{PART_NAME}", and no other part or field.'


TokenCheck = Callable[[str | None], None]


class FileSink:
    """Writes the file's bytes to a stream while counting and hashing them.

    With `check_token` the token of a form may come first; it is judged before the file begins.
    """

    def __init__(
        self, stream: BinaryIO, max_bytes: int, check_token: TokenCheck | None = None
    ) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._check_token = check_token
        self._token: bytearray | None = None
        self._hash = hashlib.sha256()
        self._is_open = False
        self.size = 0

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    def take(self, event: Event) -> None:
        """Take the file's beginning and its bytes; refuse any part but the one, and the token."""
        if isinstance(event, Data):
            self._write(event.data)
        elif isinstance(event, Field):
            self._open_token(event.name)
        elif isinstance(event, File):
            self._open_file(event.name)

    def close(self) -> None:
        if not self._is_open:
            raise InvalidRequestError(_EXPECTED)

    def _open_token(self, name: str) -> None:
        is_first = self._token is None and not self._is_open
        if self._check_token is None or name != TOKEN_FIELD or not is_first:
            raise InvalidRequestError(_EXPECTED)
        self._token = bytearray()

    def _open_file(self, name: str) -> None:
        if self._is_open or name != PART_NAME:
            raise InvalidRequestError(_EXPECTED)
        if self._check_token is not None:
            token = None if self._token is None else self._token.decode("ascii", "replace")
            self._check_token(token)
        self._is_open = True

    def _write(self, data: bytes) -> None:
        if not self._is_open:
            self._write_token(data)
            return
        self.size += len(data)
        if self.size > self._max_bytes:
            raise PayloadTooLargeError(f"The file must be at most {self._max_bytes:,} bytes.")
        self._hash.update(data)
        self._stream.write(data)

    def _write_token(self, data: bytes) -> None:
        assert self._token is not None, "data follows the beginning of a part"  # noqa: S101
        self._token += data
        if len(self._token) > _MAX_TOKEN_BYTES:
            raise InvalidRequestError(_EXPECTED)


def copy_file(blocks: Iterable[bytes], boundary: bytes, sink: FileSink) -> None:
    """Hand the file's bytes to the sink.

    Raises `BadRequestError` for what is no multipart body, `InvalidRequestError` for one that does
    not hold exactly one file, `PayloadTooLargeError` as soon as the file is too large.
    """
    decoder = MultipartDecoder(boundary, max_form_memory_size=MAX_OVERHEAD_BYTES)
    for block in chain(blocks, (None,)):
        for event in _events(decoder, block):
            sink.take(event)
    sink.close()


def _events(decoder: MultipartDecoder, block: bytes | None) -> list[Event]:
    """What another block, or the end, completes; never more than some blocks' worth of bytes."""
    events: list[Event] = []
    try:
        decoder.receive_data(block)
        while not isinstance(event := decoder.next_event(), NeedData | Epilogue):
            events.append(event)
    except (ValueError, RequestEntityTooLarge) as error:
        raise BadRequestError(_MALFORMED) from error
    return events
