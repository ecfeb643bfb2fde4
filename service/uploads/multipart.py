"""The one file of a multipart/form-data body, as it streams by.

Nothing of the body outlives it but the file's own bytes: no file name, no type, no other field.
"""

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import BinaryIO, Final

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

from service.errors import BadRequestError, InvalidRequestError, PayloadTooLargeError

PART_NAME: Final = "file"
# What may stand between two boundaries without being the file's: headers, a preamble, an epilogue.
MAX_OVERHEAD_BYTES: Final = 512 * 1024
_MALFORMED: Final = "The body is not well-formed multipart/form-data, or broke off before its end."
_EXPECTED: Final = f'Send one file, as the part "{PART_NAME}", and no other part or field.'


class FileSink:
    """Writes the file's bytes to a stream while counting and hashing them."""

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._is_open = False
        self.size = 0

    @property
    def sha256(self) -> bytes:
        return self._hash.digest()

    def take(self, event: Event) -> None:
        """Take the file's beginning and its bytes; refuse any part but the one."""
        if isinstance(event, Data):
            self._write(event.data)
        elif isinstance(event, File | Field):
            if self._is_open or isinstance(event, Field) or event.name != PART_NAME:
                raise InvalidRequestError(_EXPECTED)
            self._is_open = True

    def close(self) -> None:
        if not self._is_open:
            raise InvalidRequestError(_EXPECTED)

    def _write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._max_bytes:
            raise PayloadTooLargeError(f"The file must be at most {self._max_bytes:,} bytes.")
        self._hash.update(data)
        self._stream.write(data)


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
