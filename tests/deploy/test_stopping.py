"""Stopping loses no connection; tests/deploy/test_rolling_restart.py stops whole services."""

import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
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


def test_connections_that_were_made_are_answered_and_new_ones_refused(
    listener: socket.socket,
) -> None:
    def answer(_environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    config = GunicornConfig()
    worker: Any = WebWorker(0, os.getppid(), [listener], None, 30, config, Logger(config))
    worker.wsgi = answer
    address = listener.getsockname()
    made = [socket.create_connection(address) for _ in range(5)]
    for connection in made:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    worker.tpool, worker.poller = worker.get_thread_pool(), selectors.DefaultSelector()
    worker.method_queue.init()
    worker.alive = False  # as after SIGTERM, before it has accepted any
    with closing(worker.tmp):
        ThreadWorker.run(worker)
    for connection in made:
        with connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_the_worker_replaces_methods_that_gunicorn_calls() -> None:
    """If this fails after an upgrade of gunicorn, what a method did happens nowhere."""
    own = {name for name in vars(WebWorker) if not name.startswith("_")}
    assert "enqueue_req" in own
    assert own <= set(dir(ThreadWorker))


@pytest.mark.parametrize(
    ("address", "proxies", "warns"),
    [("127.0.0.1", 0, False), ("0.0.0.0", 0, True), ("0.0.0.0", 1, False)],
)
def test_a_port_that_others_reach_without_a_proxy_is_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    proxies: int,
    warns: bool,
) -> None:
    config = SimpleNamespace(trusted_proxies=proxies, drain_seconds=0)
    monkeypatch.setattr(Config, "load", lambda: config)
    with closing(socket.create_server((address, 0))) as listener:
        server = SimpleNamespace(LISTENERS=[SimpleNamespace(sock=listener)], stop=None)
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
    assert requests.get(f"{stopped.url}/readyz", timeout=5).status_code == 200
    stopped.process.terminate()
    wait_until(lambda: requests.get(f"{stopped.url}/readyz", timeout=5).status_code == 503, 20)
    answer = requests.post(f"{stopped.url}{INGEST}", json=batch(), headers=writes, timeout=5)
    assert answer.status_code == 201
    assert requests.get(f"{stopped.url}/healthz", timeout=5).status_code == 200
    assert stopped.process.poll() is None
