"""Answers in OTLP's own shapes, in protobuf or JSON as the request: partial success and Status."""

from typing import Final

from flask import Response, jsonify, request

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
# Of google.rpc.Code, which the messages of OTLP's errors have.
_CODES: Final = {
    401: 16,  # UNAUTHENTICATED
    402: 9,  # FAILED_PRECONDITION
    403: 7,  # PERMISSION_DENIED
    404: 5,  # NOT_FOUND
    405: 12,  # UNIMPLEMENTED
    429: 8,  # RESOURCE_EXHAUSTED
    500: 13,  # INTERNAL
    503: 14,  # UNAVAILABLE
}
_INVALID_ARGUMENT: Final = 3
_LONGEST_REASON: Final = 500
_NUMBER, _TEXT = 0, 2  # wire types of protobuf


def status_response(status: int, message: str) -> Response:
    """Return an error as `google.rpc.Status`; its HTTP status is set later."""
    code = _CODES.get(status, _INVALID_ARGUMENT)
    if request.mimetype == JSON:
        return jsonify(code=code, message=message)
    return _protobuf(_number(1, code) + _text(2, message.encode()))


def status_line(status: int, message: str) -> str:
    """Return the HTTP status with the message as its reason.

    OpenTelemetry's exporter for Python logs the reason, and nothing of the body.
    """
    return f"{status} {message.encode('ascii', 'replace').decode()[:_LONGEST_REASON]}"


def accepted_response(rejected: int = 0, message: str = "") -> Response:
    """Return a success, with what was not used of the request.

    The three kinds of requests have the same response: the number of rejected items, and why.
    """
    is_partial = bool(rejected or message)
    if request.mimetype == JSON:
        part = {_REJECTED[request.path.rpartition("/")[2]]: str(rejected), "errorMessage": message}
        return jsonify({"partialSuccess": part} if is_partial else {})
    part_bytes = (_number(1, rejected) if rejected else b"") + _text(2, message.encode())
    return _protobuf(_text(1, part_bytes) if is_partial else b"")


_REJECTED: Final = {
    "traces": "rejectedSpans",
    "logs": "rejectedLogRecords",
    "metrics": "rejectedDataPoints",
}


def _protobuf(body: bytes) -> Response:
    return Response(body, mimetype=PROTOBUF)


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3 | _NUMBER]) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | _TEXT]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
