"""Crowds of slow clients, of the service or of a proxy, and how long others wait meanwhile."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

import requests

# More than the kernel buffers, and cheap to make.
PAGE: Final = b"GET /static/vendor/htmx-4.0.1.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADERS: Final = b"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY: Final = (
    b"POST /auth/magic-link HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2000\r\n\r\n{"
)
CROWDS: Final = {
    "senders of bodies": (60, BODY, b" "),
    "senders of headers": (60, HEADERS, b"x"),
    "readers that never read": (100, PAGE * 50, b""),
    "silent connections": (300, b"", b""),
}
# Seconds, on a machine where each handshake waits.
LONGEST_GATHERING: Final = 120.0


def small_socket() -> socket.socket:
    """Return a socket whose kernel buffers little of what it doesn't read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return connection


@dataclass
class Crowd:
    """Connections of slow clients, most of which stand from the start, until the crowd is left.

    `connect` makes the connection of the member with this number. A member who is cut off, or who
    can't join because the machine is busy, tries again.
    """

    connect: Callable[[int], socket.socket]
    size: int
    opening: bytes
    drip: bytes
    failed_joins: int = 0
    _stands: Event = field(default_factory=Event)
    _done: Event = field(default_factory=Event)

    def __enter__(self) -> "Crowd":
        self._thread = Thread(target=self._linger)
        self._thread.start()
        if not self._stands.wait(LONGEST_GATHERING):
            self.__exit__()
            raise AssertionError(f"no crowd stands: {self.failed_joins} failed to join")
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _linger(self) -> None:
        members: dict[int, socket.socket] = {}
        with ExitStack() as stack:
            while not self._done.is_set():
                for number in range(self.size):
                    if self._done.is_set():
                        break
                    try:
                        if number in members:
                            members[number].send(self.drip)
                        else:
                            members[number] = self._join(stack, number)
                    except OSError:
                        self.failed_joins += members.pop(number, None) is None
                if len(members) > self.size / 2:
                    self._stands.set()
                self._done.wait(0.5)

    def _join(self, stack: ExitStack, number: int) -> socket.socket:
        member = stack.enter_context(self.connect(number))
        member.sendall(self.opening)
        return member


def answer_times(ask: Callable[[], int], seconds: float) -> Iterator[float]:
    """Ask for a page that is answered with 200, ten times a second."""
    ends_at = time.monotonic() + seconds
    while (began_at := time.monotonic()) < ends_at:
        with suppress(requests.Timeout):
            assert ask() == 200
        yield time.monotonic() - began_at
        time.sleep(0.1)
