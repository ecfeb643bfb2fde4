"""Send one POST request to a checked address, with a deadline for all of it.

Redirects are not followed, proxies of the environment are not used, and of the response only the
status and the first kilobytes are read. Why this is not a library: see
docs/decisions/workers/35-notices.md.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from threading import Event, Timer
from typing import Final

from service.notices.addresses import resolve
from service.notices.urls import TargetURL

CONNECT_SECONDS: Final = 5.0
WHOLE_SECONDS: Final = 15.0
_BODY_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.1
_MAX_BODY_BYTES: Final = 4_096


class ResponseError(Exception):
    """The response isn't one of HTTP."""


def send(
    url: TargetURL, headers: Mapping[str, str], body: bytes, *, allows_private: bool = False
) -> int:
    """Post the body and return the response's status; raise `OSError` and its kin if none came."""
    ends_at = time.monotonic() + WHOLE_SECONDS
    addresses = resolve(url.host, url.port, seconds=CONNECT_SECONDS, allows_private=allows_private)
    with _connected(url, addresses) as connection, _ending(connection, ends_at) as is_late:
        try:
            # TLS with the host that the URL names, whatever its address is.
            tls = ssl.create_default_context() if url.scheme == "https" else None
            with (
                nullcontext(connection)
                if tls is None
                else tls.wrap_socket(connection, server_hostname=url.host) as secured
            ):
                client = http.client.HTTPConnection(url.host, url.port)
                client.sock = secured
                client.request("POST", url.target, body, {"Host": url.authority, **headers})
                response = client.getresponse()
                secured.settimeout(_BODY_SECONDS)
                with suppress(OSError, http.client.HTTPException, ValueError):
                    # Closing while the peer still writes would look like an error there.
                    response.read1(_MAX_BODY_BYTES)
                response.close()
        except (OSError, http.client.HTTPException) as error:
            if is_late.is_set():
                raise TimeoutError from error
            if isinstance(error, OSError):
                raise
            raise ResponseError from error
        if is_late.is_set():  # `http.client` takes headers that were cut off for all of them
            raise TimeoutError
        return response.status


@contextmanager
def _connected(url: TargetURL, addresses: Sequence[str]) -> Iterator[socket.socket]:
    """Connect to the first address that answers, and to nothing but these."""
    ends_at, failure = time.monotonic() + CONNECT_SECONDS, OSError()
    for position, address in enumerate(addresses):
        left = ends_at - time.monotonic()
        seconds = max(_SHORTEST_SECONDS, left / (len(addresses) - position))
        try:
            connection = socket.create_connection((address, url.port), seconds)
        except OSError as error:
            failure = error
            if time.monotonic() >= ends_at:
                break
            continue
        with connection:
            connection.settimeout(WHOLE_SECONDS)
            yield connection
        return
    raise failure


@contextmanager
def _ending(connection: socket.socket, ends_at: float) -> Iterator[Event]:
    """Cut the connection at the deadline, even while a byte arrives every second."""
    is_late, copy = Event(), connection.dup()

    def cut() -> None:
        is_late.set()
        with suppress(OSError):
            copy.shutdown(socket.SHUT_RDWR)

    timer = Timer(max(0.0, ends_at - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        copy.close()
