"""Stopping loses no connection; tests/deploy/test_rolling_restart.py stops whole services."""

import logging
import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker
from structlog.testing import capture_logs

from service.config import Config
from service.web.server import gunicorn_config
from service.web.server.web_process import WebWorker
from tests.service.support.live import ONE_PROCESS, LiveService, start_live_service
from tests.service.support.scenes import INGEST, batch
from tests.worker.support.waiting import wait_until


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Logger:
    """gunicorn's logger; its changes to Python's loggers end with the test."""
    for name in ("gunicorn.error", "gunicorn.access"):
        logger = logging.getLogger(name)
        for attribute in ("handlers", "level", "propagate"):
            monkeypatch.setattr(logger, attribute, copy(getattr(logger, attribute)))
    return Logger(GunicornConfig())


def _stop_before_accepting(
    listener: socket.socket, log: Logger, *, is_held: bool
) -> list[socket.socket]:
    """Run a process that is stopped already, and return five connections that wait for it."""

    def answer(_environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    worker: Any = WebWorker(0, os.getppid(), [listener], None, 30, log.cfg, log)
    worker.wsgi, worker.owns_sockets = answer, not is_held
    address = listener.getsockname()
    made = [socket.create_connection(address) for _ in range(5)]
    for connection in made:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)  # or each is waited for: it may send more
    worker.tpool, worker.poller = worker.get_thread_pool(), selectors.DefaultSelector()
    worker.method_queue.init()
    worker.alive = False  # as after SIGTERM, before it has accepted any
    with closing(worker.tmp):
        ThreadWorker.run(worker)
    return made


def test_connections_that_were_made_are_answered_and_new_ones_refused(
    listener: socket.socket, log: Logger
) -> None:
    address = listener.getsockname()
    for connection in _stop_before_accepting(listener, log, is_held=False):
        with connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_connections_to_a_held_socket_wait_for_the_next_process(
    listener: socket.socket, log: Logger
) -> None:
    with closing(listener.dup()) as held:
        waiting = _stop_before_accepting(listener, log, is_held=True)
        held.settimeout(5)
        for connection in waiting:
            with connection, held.accept()[0] as accepted:
                assert accepted.recv(4096).startswith(b"GET / HTTP/1.1")


@pytest.mark.parametrize(
    ("systemd", "address", "is_held"),
    [(False, ("127.0.0.1", 8000), False), (True, ("127.0.0.1", 8000), True), (False, 3, True)],
)
def test_sockets_of_systemd_and_of_up_are_held(
    monkeypatch: pytest.MonkeyPatch, systemd: bool, address: object, is_held: bool
) -> None:
    config = SimpleNamespace(trusted_proxies=1, drain_seconds=0)
    monkeypatch.setattr(Config, "load", lambda: config)
    server = _server([], address, systemd=systemd)
    gunicorn_config.when_ready(server)
    assert server.worker_class.owns_sockets is not is_held


def _server(listeners: list[Any], address: object, *, systemd: bool = False) -> Any:
    return SimpleNamespace(
        LISTENERS=listeners,
        stop=None,
        systemd=systemd,
        cfg=SimpleNamespace(address=[address]),
        worker_class=SimpleNamespace(),
    )


def test_the_worker_replaces_methods_that_gunicorn_calls() -> None:
    """If this fails after an upgrade of gunicorn, what a method did happens nowhere."""
    own = {name for name, part in vars(WebWorker).items() if callable(part) and name[0] != "_"}
    assert "enqueue_req" in own
    assert own <= set(dir(ThreadWorker))


@pytest.mark.parametrize(
    ("address", "proxies", "warns"),
    [("127.0.0.1", 0, False), ("0.0.0.0", 0, True), ("0.0.0.0", 1, False)],
)
def test_a_port_that_others_reach_without_a_proxy_is_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch, address: str, proxies: int, warns: bool
) -> None:
    config = SimpleNamespace(trusted_proxies=proxies, drain_seconds=0)
    monkeypatch.setattr(Config, "load", lambda: config)
    with closing(socket.create_server((address, 0))) as listener:
        server = _server([SimpleNamespace(sock=listener)], listener.getsockname())
        with capture_logs() as logs:
            gunicorn_config.when_ready(server)
    assert [log["event"] for log in logs] == ["no_proxy"] * warns


@pytest.fixture
def stopped(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[LiveService]:
    """A service that its test stops, and that would drain for a minute."""
    live = start_live_service(database_url, redis_url, tmp_path, drain_seconds=60, **ONE_PROCESS)
    yield live
    live.process.kill()  # what it has forked ends with it
    live.process.wait(20)
    live.engine.dispose()


def test_readiness_fails_before_the_service_stops(stopped: LiveService) -> None:
    writes = stopped.add_tenant().writes
    assert requests.get(f"{stopped.url}/readyz", timeout=60).status_code == 200
    stopped.process.terminate()
    wait_until(lambda: requests.get(f"{stopped.url}/readyz", timeout=5).status_code == 503, 20)
    answer = requests.post(f"{stopped.url}{INGEST}", json=batch(), headers=writes, timeout=60)
    assert answer.status_code == 201
    assert requests.get(f"{stopped.url}/healthz", timeout=60).status_code == 200
    assert stopped.process.poll() is None
