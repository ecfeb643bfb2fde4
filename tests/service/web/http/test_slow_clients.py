"""Row 37: slow senders, readers that never read and silent connections stop nobody."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from flask import Flask

from service.errors import UnavailableError
from service.web.http.current import IS_BUSY, WITHOUT_SLOT
from service.web.server import slots
from service.web.server.slots import Deadlines, SlottedApplication
from tests.service.support.live import LiveService
from tests.service.support.slow_clients import CROWDS, HEADERS, Crowd, answer_times, small_socket
from tests.worker.support.promises import Note, at_a_twentieth, sampled, scaled


def connect(live: LiveService) -> socket.socket:
    address = urlsplit(live.url)
    connection = small_socket()
    connection.connect((str(address.hostname), address.port))
    return connection


@at_a_twentieth
@pytest.mark.parametrize("kind", sampled(CROWDS, 4))
def test_slow_clients_stop_nobody(live: LiveService, note: Note, kind: str, share: float) -> None:
    size, opening, drip = CROWDS[kind]
    seconds = scaled(60, share)
    with Crowd(lambda _: connect(live), size, opening, drip):
        time.sleep(2 if share == 1 else 1)
        waits = sorted(answer_times(lambda: _ask(live), seconds))
    # Other tests run beside the short one; where nobody were answered, each would wait 10 seconds.
    percent, limit = (99, 1) if share == 1 else (50, 5)
    wait = waits[len(waits) * percent // 100]
    name = f"37 {size} {kind}: /healthz p{percent} {wait * 1000:.0f} ms"
    note(name, len(waits), wait > limit)


def test_a_crowd_stands_though_some_cannot_join_at_first() -> None:
    others, refused = list[socket.socket](), {1, 2}

    def join(number: int) -> socket.socket:
        if number in refused:
            refused.remove(number)
            raise TimeoutError
        member, other = socket.socketpair()
        others.append(other)
        return member

    with Crowd(join, 5, b"x", b"") as crowd:
        assert crowd.failed_joins == 2
    assert [other.recv(1) for other in others] == [b"x"] * len(others)
    for other in others:
        other.close()


def _ask(live: LiveService) -> int:
    """Ask for /healthz on a new connection."""
    return requests.get(f"{live.url}/healthz", timeout=10).status_code


def test_an_overdue_client_is_cut_off_and_others_are_not() -> None:
    deadlines = Deadlines()
    slow, fast = socket.socketpair(), socket.socketpair()
    with slow[0], slow[1], fast[0], fast[1]:
        deadlines.set(slow[0], -1.0)
        deadlines.set(fast[0], 60.0)
        assert deadlines.cut_overdue() == 1
        assert slow[1].recv(1) == b""
        fast[0].sendall(b"x")
        assert fast[1].recv(1) == b"x"
        deadlines.set(fast[0], -1.0)
        deadlines.clear(fast[0])
        assert deadlines.cut_overdue() == 0
        fast[0].sendall(b"y")
        assert fast[1].recv(1) == b"y"


@pytest.mark.stress
def test_a_sender_that_drips_is_cut_off_in_time(live: LiveService) -> None:
    """However regularly it sends: its header after 15 s, its body after 30 s with a response."""
    header = time_until_end(live, HEADERS, b"x")[0]
    assert 14 < header < 20
    seconds, answer = time_until_end(live, CROWDS["senders of bodies"][1], b" ")
    assert 29 < seconds < 50
    assert answer.startswith(b"HTTP/1.1 400")


def time_until_end(live: LiveService, opening: bytes, drip: bytes) -> tuple[float, bytes]:
    received, began_at = b"", time.monotonic()
    with connect(live) as connection:
        connection.sendall(opening)
        connection.settimeout(1)
        while time.monotonic() - began_at < 90:
            try:
                connection.send(drip)
                block = connection.recv(4096)
                if not block:
                    break
                received += block
            except TimeoutError:
                continue
            except OSError:
                break
    return time.monotonic() - began_at, received


@dataclass
class Asking:
    """Sends requests to a WSGI application in this process."""

    application: SlottedApplication
    connection: socket.socket
    body: Any = field(default_factory=lambda: SimpleNamespace(reader=None))

    def __call__(self, path: str) -> list[bytes]:
        environ = {"PATH_INFO": path, "gunicorn.socket": self.connection, "wsgi.input": self.body}
        return list(self.application(environ, lambda *_: None))


def test_a_request_that_sleeps_lets_others_run() -> None:
    """As an upload does that waits for its account's turn."""
    client, server = socket.socketpair()
    asleep, awake = Event(), Event()

    def application(environ: dict[str, Any], start_response: object) -> list[bytes]:
        if environ["PATH_INFO"] == "/waits":
            asleep.set()
            while not awake.is_set():
                with environ[WITHOUT_SLOT]():
                    time.sleep(0.01)
        return [environ["PATH_INFO"].encode()]

    ask = Asking(SlottedApplication(application, 1, Deadlines()), server)
    with client, server, ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(ask, "/waits")
        assert asleep.wait(60)
        try:
            assert pool.submit(ask, "/runs").result(60) == [b"/runs"]
        finally:
            awake.set()
        assert waiting.result(60) == [b"/waits"]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_QUEUE_SECONDS", 0.05)


@pytest.mark.usefixtures("hurried")
def test_a_request_without_a_slot_in_time_is_refused_and_takes_none() -> None:
    client, server = socket.socketpair()
    running, done = Event(), Event()

    def application(environ: dict[str, Any], start_response: object) -> list[bytes]:
        if environ[IS_BUSY]:
            return [b"busy"]
        running.set()
        assert done.wait(60)
        return [b"done"]

    ask = Asking(SlottedApplication(application, 1, Deadlines()), server)
    with client, server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, "/")
        assert running.wait(60)
        try:
            assert [ask("/"), ask("/")] == [[b"busy"], [b"busy"]]
        finally:
            done.set()
        assert first.result(60) == [b"done"]
        assert ask("/") == [b"done"]


@pytest.mark.usefixtures("hurried")
def test_a_request_that_finds_no_slot_after_its_body_is_refused() -> None:
    client, server = socket.socketpair()
    reading, taken, done = Event(), Event(), Event()

    class SlowBody:
        reader = None

        def read(self) -> bytes:
            reading.set()
            assert taken.wait(60)
            return b"body"

    def application(environ: dict[str, Any], start_response: object) -> list[bytes]:
        if environ["PATH_INFO"] == "/reads":
            try:
                return [environ["wsgi.input"].read()]
            except UnavailableError:
                return [b"busy"]
        taken.set()
        assert done.wait(60)
        return [b"done"]

    ask = Asking(SlottedApplication(application, 1, Deadlines()), server, SlowBody())
    with client, server, ThreadPoolExecutor(2) as pool:
        reads = pool.submit(ask, "/reads")
        assert reading.wait(60)
        runs = pool.submit(ask, "/runs")
        assert reads.result(60) == [b"busy"]
        done.set()
        assert runs.result(60) == [b"done"]
        assert ask("/reads") == [b"body"]


def test_a_busy_server_answers_503_and_when_to_try_again(app: Flask) -> None:
    for path in ("/api/v1/audits", "/sign-in", "/admin"):
        response = app.test_client().get(path, environ_overrides={IS_BUSY: True})
        assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
