"""The sockets of `tallystick up`: bound once, then inherited by the programs that serve on them."""

import socket
from typing import Self

from service.operations.local.embedded import ServersError

_BACKLOG = 2048
_ATTEMPTS = 20  # a port that is free on IPv4 may be taken on IPv6


class PortTakenError(ServersError):
    """Another program is listening on the requested port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use; choose another with --port")


class LoopbackSockets:
    """Listening sockets on one port of this machine, for `localhost` over IPv4 and IPv6.

    They listen from the start, so no other program can take the port before the web process runs.
    """

    def __init__(self, port: int, sockets: tuple[socket.socket, ...]) -> None:
        self.port = port
        self._sockets = sockets

    @classmethod
    def open(cls, wanted: int | None, usual: int) -> Self:
        """Listen on the requested port, or else the default port, or else any free port."""
        found = cls._find(wanted or usual)
        if found is None and wanted:
            raise PortTakenError(wanted)
        for _ in range(_ATTEMPTS):
            found = found or cls._find(0)
        if found is None:
            raise ServersError("no port is free on both IPv4 and IPv6")
        return found

    @classmethod
    def _find(cls, port: int) -> Self | None:
        first = _listen(socket.AF_INET, "127.0.0.1", port)
        if first is None:
            return None
        bound = int(first.getsockname()[1])
        if not _has_ipv6():
            return cls(bound, (first,))
        second = _listen(socket.AF_INET6, "::1", bound)
        if second is None:
            first.close()
            return None
        return cls(bound, (first, second))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(each.fileno() for each in self._sockets)

    def close(self) -> None:
        """Close this process's copies; those of other processes stay open."""
        for each in self._sockets:
            each.close()


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket | None:
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError:
        return None


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as attempt:
            attempt.bind(("::1", 0))
    except OSError:
        return False
    return True
