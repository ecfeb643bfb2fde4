"""One POST over a connection of its own: TLS, proxies of the environment, and a total deadline.

Observability tools patch `http.client` and `urllib` to add headers of their own to every request
and to record it as part of whatever is being traced. Batches are sent with a private copy of
`http.client`, so nothing of theirs travels with the counts.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - or the first connection imports it, in a thread
import http
import io
import os
import ssl
import time
from base64 import b64encode
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

TIMEOUT_SECONDS = 5.0
# A server that sends a byte now and then never reaches the timeout of one read.
TOTAL_SECONDS = 10.0


class Reply(NamedTuple):
    """The parts of a response that matter: its body is never read."""

    status: int
    retry_after: str | None
    date: str | None = None


def make_deadline() -> float:
    return time.monotonic() + TOTAL_SECONDS


def post(
    url: str, body: bytes, headers: dict[str, str], trust: ssl.SSLContext | None, deadline: float
) -> Reply:
    """Post once, follow no redirect, and raise what the network raises."""
    target = urlsplit(url)
    proxies = _proxies()
    text, proxy = proxies.get(target.scheme) or proxies.get("all"), None
    if text and not proxy_bypass(target.netloc):
        proxy = urlsplit(text if "://" in text else f"http://{text}")
    address = target._replace(scheme="", netloc="").geturl()
    sent, to = {**headers, "Connection": "close"}, target if proxy is None else proxy
    if target.scheme == "https":
        connection = _http.HTTPSConnection(to.hostname, to.port, context=trust)
        if proxy is not None:
            connection.set_tunnel(target.hostname, target.port or 443, _credentials(proxy))
    else:
        connection = _http.HTTPConnection(to.hostname, to.port)
        if proxy is not None:
            address = target.geturl()
            sent.update(_credentials(proxy))
    connection.timeout = _remaining(deadline)
    try:
        connection.connect()
        connection.sock = _Socket(connection.sock, deadline)
        connection.request("POST", address, body, sent)
        response = connection.getresponse()
        header = response.getheader
        return Reply(response.status, header("Retry-After"), header("Date"))
    finally:
        connection.close()


def make_trust() -> ssl.SSLContext:
    """Return the system's certificates, or where a Python came without any, those of `certifi`."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        try:
            import certifi
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context


def _load_private_client() -> Any:
    """Load `http.client` from its file a second time, or share it where there is no such file."""
    spec = PathFinder.find_spec("http.client", http.__path__)  # past the import hooks of others
    if spec is None or spec.loader is None:
        import http.client as shared

        return shared
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_http: Any = _load_private_client()
NETWORK_ERRORS = (OSError, _http.HTTPException)


def _proxies() -> dict[str, str]:
    """Of the environment alone where processes fork: macOS ends a forked one that asks it."""
    return getproxies_environment() if hasattr(os, "fork") else getproxies()


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode('ascii')}"}


def _remaining(deadline: float) -> float:
    """Return how long the next step may take; raise where no time is left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, TIMEOUT_SECONDS)


class _Socket:
    """An open socket whose reads and writes all end at the same deadline."""

    def __init__(self, plain: Any, deadline: float) -> None:
        self._plain = plain
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        self._bound().sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def receive(self, buffer: Any) -> int:
        count: int = self._bound().recv_into(buffer)
        return count

    def close(self) -> None:
        self._plain.close()

    def _bound(self) -> Any:
        self._plain.settimeout(_remaining(self._deadline))
        return self._plain


class _Reader(io.RawIOBase):
    def __init__(self, source: _Socket) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._source.receive(buffer)
