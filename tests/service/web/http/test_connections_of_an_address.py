"""Row 37: an address has a number of connections, of which idle ones make room for new ones.

And a process leaves a new connection to another one that has fewer and is idle.
"""

import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from service.web.server import balance, web_process
from service.web.server.web_process import WebWorker, _is_idle

CAP = 3
MOST_TURNS = 600  # of the main loop; a turn in which nothing happens takes 0.05 seconds
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Web:
    """A worker of one thread, whose main loop a test turns, and its clients."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.is_asked, self.may_answer = Event(), Event()
        self.may_answer.set()
        config = GunicornConfig()
        config.set("threads", 1)
        config.set("keepalive", 60)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        application = SimpleNamespace(wsgi=lambda: self)
        self.worker: Any = WebWorker(
            0, os.getpid(), [listener], application, 30, config, Logger(config)
        )
        stack.callback(self.worker.tmp.close)
        self.extensions = {"config": SimpleNamespace(trusted_proxies=0)}
        self._address = listener.getsockname()
        self._open()

    def _open(self) -> None:
        """Do what gunicorn does in a new process, without its signals."""
        worker = self.worker
        worker.wsgi = self._answer
        worker.tpool = worker.get_thread_pool()
        worker.poller = selectors.DefaultSelector()
        worker.method_queue.init()
        queue = worker.method_queue
        worker.poller.register(queue.fileno(), selectors.EVENT_READ, queue.run_callbacks)
        worker.set_accept_enabled(True)
        self._stack.callback(queue.close)
        self._stack.callback(worker.poller.close)
        self._stack.callback(worker.tpool.shutdown)
        self._stack.callback(self._finish)

    def _finish(self) -> None:
        """Without clients, no connection is left."""
        self.may_answer.set()
        self.turn_until(lambda: bool(self.worker.nr_conns == 0))

    def _answer(self, _environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        self.is_asked.set()
        assert self.may_answer.wait(60)
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    def connect(self, request: bytes = b"") -> socket.socket:
        client = self._stack.enter_context(socket.create_connection(self._address))
        client.sendall(request)
        return client

    def turn_until(self, is_so: Callable[[], bool]) -> None:
        """Turn the main loop until this is so; the connections counted never exceed the cap."""
        for _ in range(MOST_TURNS):
            if is_so():
                return
            self.worker.wait_for_and_dispatch_events(0.05)
            assert self.worker.nr_conns <= CAP
        pytest.fail("the main loop has nothing left to do")

    def connect_idle(self) -> socket.socket:
        """Make a request, and keep the connection when its response has arrived."""
        client = self.connect(REQUEST)
        assert self.is_answered(client)
        self.turn_until(lambda: client.getsockname() in self.idle())
        return client

    def idle(self) -> list[Any]:
        """Return the addresses of the idle connections' clients, idle longest first."""
        return [one.client for one in self.worker.keepalived_conns if _is_idle(one.sock)]

    def connect_busy(self) -> socket.socket:
        """Make a request that takes the only thread, until `may_answer`."""
        self.is_asked.clear()
        self.may_answer.clear()
        client = self.connect(REQUEST)
        self.turn_until(self.is_asked.is_set)
        return client

    def connect_slow(self, begun: bytes = b"") -> socket.socket:
        client, before = self.connect(begun), self.worker.nr_conns
        self.turn_until(lambda: bool(self.worker.nr_conns > before))
        return client

    def is_answered(self, client: socket.socket) -> bool:
        self.turn_until(lambda: _can_read(client))
        received = b""
        while not received.endswith(b"ok") and (block := client.recv(4096)):
            received += block
        return received.startswith(b"HTTP/1.1 200")


def _can_read(client: socket.socket) -> bool:
    try:
        client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(web_process, "CONNECTIONS_PER_ADDRESS", CAP)
    with ExitStack() as stack:
        yield Web(stack)


def test_a_new_connection_takes_the_place_of_the_one_idle_longest(web: Web) -> None:
    """As of clients that close a connection only after they have made the next."""
    first, second = web.connect_idle(), web.connect_idle()
    web.connect_slow()
    new = web.connect_idle()
    assert first.recv(1) == b""
    assert web.idle() == [second.getsockname(), new.getsockname()]


def test_without_an_idle_one_a_new_connection_is_refused(web: Web) -> None:
    busy, slow, silent = web.connect_busy(), web.connect_slow(REQUEST[:5]), web.connect_slow()
    assert not web.is_answered(web.connect())
    web.may_answer.set()
    assert web.is_answered(busy)
    for waiting, rest in ((slow, REQUEST[5:]), (silent, REQUEST)):
        waiting.sendall(rest)
        assert web.is_answered(waiting)


def test_a_connection_that_its_client_closed_waits_for_no_thread(web: Web) -> None:
    idle = web.connect_idle()
    web.connect_busy()
    assert web.worker.nr_conns == 2
    idle.close()
    web.turn_until(lambda: bool(web.worker.nr_conns == 1))


OTHER_PROCESS = 1


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> balance.Balance:
    """What this process and others have published."""
    published = balance.Balance()
    monkeypatch.setattr(web_process, "balance", published)
    return published


def test_an_idle_process_with_fewer_connections_gets_the_next(
    web: Web, processes: balance.Balance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection wakes all processes."""
    listener, elsewhere = web.worker.sockets[0], list[socket.socket]()
    sleep = SimpleNamespace(sleep=lambda _: elsewhere.append(listener.accept()[0]))
    monkeypatch.setattr(balance, "time", sleep)  # other threads of this process sleep as ever
    web.connect_idle()
    for connections, running in ((0, 2), (2, 0)):  # busy, or with as many connections
        processes.publish(OTHER_PROCESS, connections, running)
        web.connect_slow()
        assert not elsewhere
    processes.publish(OTHER_PROCESS, connections=1, running=1)
    web.connect()
    web.turn_until(lambda: bool(elsewhere))
    elsewhere[0].close()
    assert web.worker.nr_conns == 3


def test_a_process_publishes_its_connections_until_it_stops(
    web: Web, processes: balance.Balance, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = list[float]()
    monkeypatch.setattr(balance, "time", SimpleNamespace(sleep=slept.append))
    web.connect_idle()
    web.worker.murder_pending()
    processes.give_way(connections=2)
    processes.give_way(connections=1)
    assert len(slept) == 1
    web.worker.alive = False
    web.worker.murder_pending()
    processes.give_way(connections=2)
    assert len(slept) == 1


def test_the_worker_replaces_methods_that_gunicorn_calls() -> None:
    """If this fails after an upgrade of gunicorn, what a method did happens nowhere."""
    own = {name for name in vars(WebWorker) if not name.startswith("_")}
    assert "enqueue_req" in own
    assert own <= set(dir(ThreadWorker))
