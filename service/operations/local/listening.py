"""The sockets of `tallystick up`: bound once, then inherited by the programs that serve on them."""

import errno
import socket
from collections.abc import Iterable

from service.operations.local.embedded.errors import ServersError

_BACKLOG = 2048
_ATTEMPTS = 20  # a port that is free on IPv4 may be taken on IPv6


class PortTakenError(ServersError):
    """Another program is listening on the requested port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use; choose another with --port")


def listen(wanted: int | None, usual: int) -> tuple[int, list[socket.socket]]:
    """Listen on the requested port, or else the default port, or else any free port.

    Returns the port and its sockets: for `localhost` over IPv4, and IPv6 if this machine has it.
    They listen from the start, so no other program can take the port before the web process runs.
    """
    for port in (wanted,) if wanted else (usual, *[0] * _ATTEMPTS):
        sockets = list[socket.socket]()
        try:
            sockets.append(socket.create_server(("127.0.0.1", port), backlog=_BACKLOG))
            port = int(sockets[0].getsockname()[1])
            ipv6 = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=_BACKLOG)
            sockets.append(ipv6)
        except OSError as error:
            if not sockets or error.errno == errno.EADDRINUSE:
                close(sockets)
                continue
        return port, sockets
    if wanted:
        raise PortTakenError(wanted)
    raise ServersError("no port is free on both IPv4 and IPv6")


def close(sockets: Iterable[socket.socket]) -> None:
    """Close this process's copies; those of other processes stay open."""
    for each in sockets:
        each.close()
