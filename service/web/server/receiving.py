"""Receive a body of known length into the memory where it stays.

gunicorn keeps what it reads ahead in a buffer, and copies the rest of it at each read: a body of a
megabyte, read in parts, is copied ten times.

This reads and changes what gunicorn's readers keep for themselves. Classes of any other kind are
read as gunicorn reads them, and `tests/service/web/http/test_receiving.py` fails after an upgrade
that changes these.
"""

from collections.abc import Callable
from typing import Any

from gunicorn.http.body import LengthReader
from gunicorn.http.unreader import SocketUnreader


def receive_into(body: Any, target: memoryview) -> int:
    """Fill `target` from gunicorn's body, and return the bytes received: fewer only at its end."""
    if not _is_plain(body):
        received = body.read(len(target))
        target[: len(received)] = received
        return len(received)
    try:
        return _fill(body.reader, target[: body.reader.length])
    except Exception:
        body.failed = True  # gunicorn doesn't use the connection again
        raise


def _is_plain(body: Any) -> bool:
    """Check that the rest of the body comes from the socket, and nothing else is in between."""
    reader = body.reader
    # A class that is derived from these may do more when it reads.
    has_length = type(reader) is LengthReader and type(reader.unreader) is SocketUnreader
    return has_length and not body.buf.getbuffer().nbytes


def _fill(reader: Any, target: memoryview) -> int:
    unreader = reader.unreader
    # What came with the header.
    ahead = reader.read(min(len(target), unreader.buf.getbuffer().nbytes))
    target[: len(ahead)] = ahead
    received = len(ahead)
    receive: Callable[[memoryview], int] = unreader.sock.recv_into
    while received < len(target) and (size := receive(target[received:])):
        received += size
        reader.length -= size
    return received
