"""Cut messages of protobuf into their fields, without decoding them."""

from collections.abc import Iterator
from typing import Final

from service.errors import BadRequestError
from service.web.otlp.spans import SpanReading

# A larger part is read piece by piece: decoded, it takes up to a hundred times its bytes.
LARGE: Final = 64 * 1024
_NOT_PROTOBUF: Final = "The body isn't a valid request of OTLP in protobuf."
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_MORE: Final = 0x80

# The protobuf field numbers of opentelemetry-proto, which never change. Those of logs are the same.
RESOURCE_SPANS: Final = 1  # of ExportTraceServiceRequest
RESOURCE, SCOPE_SPANS = 1, 2  # of ResourceSpans
SCOPE, SPANS = 1, 2  # of ScopeSpans

# The number of a field, its bytes if it is embedded, and the whole field.
Part = tuple[int, memoryview, memoryview]


def malformed() -> BadRequestError:
    return BadRequestError(_NOT_PROTOBUF)


def cut(message: memoryview, reading: SpanReading, cost: int) -> Iterator[Part]:
    """Yield the fields of a message; those that are numbers have no bytes of their own."""
    at, size, nothing = 0, len(message), message[:0]
    while at < size:
        reading.spend(cost)
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
