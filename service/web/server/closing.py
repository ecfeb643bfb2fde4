"""Stop listening without losing a connection.

gunicorn closes its listening sockets, but its processes keep theirs open until the last request is
finished: the kernel goes on accepting connections that nobody answers, and resets them in the end.
A proxy can't send such a request to another instance, because it might have been processed. A
refused connection, it can.
"""

import ctypes
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from service.web.http.current import draining

# Connections that a client is just opening are made within this time, and those that are made are
# accepted soon afterwards.
_OPENING_SECONDS: Final = 0.2
_ACCEPTING_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.01
_SO_ATTACH_FILTER: Final = 26  # Linux, which Python has no name for
# A program of the kernel's packet filter. It drops packets that open a connection (SYN without
# ACK); clients send them again after a second, and are then refused.
_NO_NEW_CONNECTIONS: Final = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte with the flags
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # unless it is SYN alone, skip the next
        (0x06, 0, 0, 0),  # drop the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # take all of it
    )
)
# Where `struct tcp_info` has the number of connections that wait to be accepted.
_WAITING_OFFSET: Final = 24


def stop_in_order(
    server: Any, stop: Callable[[bool], None], drain_seconds: int, graceful: bool = True
) -> None:
    """Stop gunicorn: be unready for some seconds, refuse new connections, finish the others."""
    if graceful and _owns_sockets(server):
        draining.start()
        time.sleep(drain_seconds)
        stop_listening([listener.sock for listener in server.LISTENERS])
    stop(graceful)


def _owns_sockets(server: Any) -> bool:
    """Check that nobody goes on listening: systemd, `up`, or a new gunicorn after SIGUSR2."""
    is_only_server = server.reexec_pid == server.master_pid == 0
    has_inherited = server.systemd or any(isinstance(one, int) for one in server.cfg.address)
    return is_only_server and not has_inherited and not server.cfg.reuse_port


def stop_listening(listeners: Sequence[socket.socket]) -> None:
    """Refuse new connections on these sockets, in every process, after accepting those made."""
    own = [each for each in listeners if each.family in (socket.AF_INET, socket.AF_INET6)]
    for listener in own:
        _drop_new_connections(listener)
    time.sleep(_OPENING_SECONDS)
    ends_at = time.monotonic() + _ACCEPTING_SECONDS
    while any(map(_count_waiting, own)) and time.monotonic() < ends_at:
        time.sleep(_POLL_SECONDS)
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RD)


def _drop_new_connections(listener: socket.socket) -> None:
    program = ctypes.create_string_buffer(_NO_NEW_CONNECTIONS)
    length = len(_NO_NEW_CONNECTIONS) // struct.calcsize("HBBI")
    # Where a sandbox doesn't allow it, connections of some microseconds are lost.
    with suppress(OSError):
        described = struct.pack("HP", length, ctypes.addressof(program))
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _count_waiting(listener: socket.socket) -> int:
    try:
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WAITING_OFFSET + 4)
    except OSError:
        return 0
    return int(struct.unpack_from("I", info, _WAITING_OFFSET)[0])
