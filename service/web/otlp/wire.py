"""Cut a trace request of protobuf into its spans, without decoding them.

A decoded message takes up to a hundred times its bytes, so a body is never decoded as a whole:
only one span at a time, of a bounded size.
"""

from collections.abc import Iterator
from typing import Final

from service.errors import BadRequestError, PayloadTooLargeError

MAX_PARTS: Final = 50_000  # spans, scopes and resources of a request
# A larger span has its attributes read one by one.
LARGE_SPAN: Final = 64 * 1024
_NOT_PROTOBUF: Final = "The body isn't a valid ExportTraceServiceRequest."
_TOO_MANY: Final = "The request has too many spans or attributes: lower the exporter's batch size."
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_MORE: Final = 0x80

# The protobuf field numbers of opentelemetry-proto, which never change.
RESOURCE_SPANS: Final = 1  # of ExportTraceServiceRequest
RESOURCE, SCOPE_SPANS = 1, 2  # of ResourceSpans
SCOPE, SPANS = 1, 2  # of ScopeSpans

# The number of a field, its bytes if it is embedded, and the whole field.
Part = tuple[int, memoryview, memoryview]


def malformed() -> BadRequestError:
    return BadRequestError(_NOT_PROTOBUF)


def too_many_spans() -> PayloadTooLargeError:
    return PayloadTooLargeError(_TOO_MANY)


class Budget:
    """The parts that a request may still have."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise too_many_spans()


def cut(message: memoryview, budget: Budget) -> Iterator[Part]:
    """Yield the fields of a message; those that are numbers have no bytes of their own."""
    at, size, nothing = 0, len(message), message[:0]
    while at < size:
        budget.spend()
        begin = at
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == _LENGTH:
            length, at = read_varint(message, at)
            own = message[at : at + length]
            at += length
        else:
            own = nothing
            at = read_varint(message, at)[1] if kind == _VARINT else at + _FIXED.get(kind, size)
        if at > size:
            raise malformed()
        yield tag >> 3, own, message[begin:at]


def read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    try:
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value, at
            shift += 7
            if shift > 63:
                raise malformed()
    except IndexError:
        raise malformed() from None
