"""Let slow clients wait without holding up the others.

Each connection that sends something has a thread, of which there are many. But only a few requests
at a time run in the application: a request gives its slot up while it waits for its client. A
client that takes too long in total is cut off, however regularly it sends or reads a byte. Slots
are given in the order in which requests ask, and one that waits too long is refused with a 503.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from service.core.telemetry.counters import SLOT_SECONDS
from service.errors import UnavailableError
from service.web.http.current import IS_BUSY, WITHOUT_SLOT
from service.web.http.shares import Shares

HEADER_SECONDS: Final = 15.0
# What a body or a response may take: this long, and longer for each byte at the slowest rate.
_TRANSFER_SECONDS: Final = 30.0
_SLOWEST_BYTES_PER_SECOND: Final = 16 * 1024

# How long a request waits for slots in total: half of the ten seconds in which it is answered.
_QUEUE_SECONDS: Final = 5.0
# A body that is checked as it arrives needs a slot for each part, so it may wait longer, by this.
_QUEUED_BYTES_PER_SECOND: Final = 256 * 1024


class Deadlines:
    """The connections whose client a thread waits for, each with its deadline."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[socket.socket, float, int]] = {}

    def set(self, connection: socket.socket, seconds: float, how: int = socket.SHUT_RDWR) -> None:
        """Cut the connection off after this time; with `SHUT_RD`, a response can still be sent."""
        self._waiting[id(connection)] = (connection, time.monotonic() + seconds, how)

    def clear(self, connection: socket.socket) -> None:
        self._waiting.pop(id(connection), None)

    def cut_overdue(self) -> int:
        """Shut the overdue connections down, which wakes their threads; return their number."""
        now = time.monotonic()
        overdue = [entry for entry in list(self._waiting.values()) if entry[1] < now]
        for connection, _deadline, how in overdue:
            self.clear(connection)
            try:
                connection.shutdown(how)
            except OSError:
                continue  # it is closed already
        return len(overdue)


class SlottedApplication:
    """A WSGI application of which only `slots` requests run at a time."""

    def __init__(self, application: Any, slots: int, deadlines: Deadlines) -> None:
        self._application = application
        self._slots = Shares(slots)
        self._deadlines = deadlines

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        client = _Client(environ["gunicorn.socket"], self._slots, self._deadlines)
        environ["wsgi.input"] = _Body(environ["wsgi.input"], client)
        environ[WITHOUT_SLOT] = client.without_slot
        with client.running() as has_slot:
            environ[IS_BUSY] = not has_slot
            parts = self._application(environ, start_response)
        return _Parts(parts, client)


class _Client:
    """The client of one request: waits for it without a slot, within its deadline."""

    def __init__(self, connection: socket.socket, slots: Shares, deadlines: Deadlines) -> None:
        self._connection = connection
        self._slots = slots
        self._deadlines = deadlines
        self._patience = _TRANSFER_SECONDS  # for the body, less what its parts took so far
        self._read_by = 0.0  # when the response should be read, on the monotonic clock
        self._queue_seconds = _QUEUE_SECONDS  # less what the request has waited so far
        self._has_slot = False

    @contextmanager
    def running(self) -> Iterator[bool]:
        """Take a slot while the request runs, and yield whether there was one in time."""
        self._deadlines.clear(self._connection)
        try:
            yield self._take_slot()
        finally:
            self._give_slot_up()

    def _take_slot(self) -> bool:
        began_at = time.monotonic()
        self._has_slot = self._slots.take(1, self._queue_seconds)
        waited = time.monotonic() - began_at
        self._queue_seconds -= waited
        SLOT_SECONDS.labels("served" if self._has_slot else "refused").observe(waited)
        return self._has_slot

    def _give_slot_up(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.give_back(1)

    @contextmanager
    def without_slot(self) -> Iterator[None]:
        """Give the slot up, if the request has one; raise `UnavailableError` without one after."""
        had_slot = self._has_slot
        self._give_slot_up()
        yield
        if had_slot and not self._take_slot():
            raise UnavailableError

    @contextmanager
    def sending_body(self) -> Iterator[None]:
        """Wait for the client, up to its deadline and without a slot."""
        with self.without_slot():
            self._deadlines.set(self._connection, self._patience, socket.SHUT_RD)
            began_at = time.monotonic()
            try:
                yield
            finally:
                self._patience -= time.monotonic() - began_at
                self._deadlines.clear(self._connection)

    def count_received(self, size: int) -> None:
        self._patience += size / _SLOWEST_BYTES_PER_SECOND
        if self._has_slot:
            self._queue_seconds += size / _QUEUED_BYTES_PER_SECOND

    def start_reading(self) -> None:
        self._read_by = time.monotonic() + _TRANSFER_SECONDS

    def expect_read(self, size: int) -> None:
        """Set the deadline for the response so far, of which the next part has this size."""
        self._read_by += size / _SLOWEST_BYTES_PER_SECOND
        self._deadlines.set(self._connection, self._read_by - time.monotonic())

    def finish(self) -> None:
        self._deadlines.clear(self._connection)


class _Body:
    """`wsgi.input`, read without a slot; Werkzeug's streams only call `read`."""

    def __init__(self, body: Any, client: _Client) -> None:
        self._body = body
        self._client = client
        self.reader = body.reader

    def read(self, *size: int | None) -> bytes:
        with self._client.sending_body():
            received: bytes = self._body.read(*size)
        self._client.count_received(len(received))
        return received


class _Parts:
    """The parts of a response, each with a deadline until the client has taken it."""

    def __init__(self, parts: Any, client: _Client) -> None:
        self._parts = parts
        self._client = client

    def __iter__(self) -> Iterator[bytes]:
        self._client.start_reading()
        for part in self._parts:
            self._client.expect_read(len(part))
            yield part

    def close(self) -> None:
        self._client.finish()
        if hasattr(self._parts, "close"):
            self._parts.close()
