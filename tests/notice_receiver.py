"""A receiver of webhooks on this machine: it notes what comes, and answers as a test wants."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

# Answers a request with the handler's means, in place of a status.
Answer = Callable[["Handler"], None]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`answers` are used up one after the other; after the last it's 204."""

    port: int
    scheme: str = "http"
    received: list[Received] = field(default_factory=list)
    answers: list[int | Answer] = field(default_factory=list)
    ends: Event = field(default_factory=Event)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def reset(self) -> None:
        self.received.clear()
        self.answers.clear()


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        receiver = self.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.received.append(Received(self.path, headers, body))
        answer = receiver.answers.pop(0) if receiver.answers else 204
        if isinstance(answer, int):
            self.answer(answer)
        else:
            with suppress(OSError):
                answer(self)

    def answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


def hang(handler: Handler) -> None:
    handler.receiver.ends.wait(20)


def drip(handler: Handler) -> None:
    """Send a header that never ends, a byte at a time, so that no read waits for long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.receiver.ends.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def endless(handler: Handler) -> None:
    """Succeed, with a body that goes on as long as somebody reads."""
    handler.send_response(200)
    handler.end_headers()
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at and not handler.receiver.ends.is_set():
        handler.wfile.write(b"x" * 65_536)


def redirect(location: str) -> Answer:
    return lambda handler: handler.answer(302, Location=location)


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"220 mail.example.org ESMTP\r\n")
    handler.close_connection = True


def flood(handler: Handler) -> None:
    """Send more headers than anybody has."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X-Flood: 1\r\n" * 1_000 + b"\r\n")
    handler.close_connection = True


@contextmanager
def running_receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    class Bound(Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a peer that left
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    Bound.receiver = Receiver(server.server_port, "https" if tls else "http")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield Bound.receiver
    Bound.receiver.ends.set()
    server.shutdown()
    server.server_close()
    thread.join()


def resolving(answers: dict[str, list[list[str]]]) -> Callable[..., Any]:
    """A resolver that has these answers, the last again and again; IP addresses are themselves."""

    def look_up(host: str, port: int) -> list[str]:
        known = answers.get(host)
        if known is None:
            return [host]
        return known.pop(0) if len(known) > 1 else known[0]

    return look_up
