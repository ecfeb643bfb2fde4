"""Stopping loses no connection; tests/deploy/test_rolling_restart.py stops whole services."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pytest
import requests

from service.web.server.closing import _drop_new_connections, stop_listening
from tests.service.support.live import ONE_PROCESS, LiveService, start_live_service
from tests.service.support.scenes import INGEST, batch
from tests.worker.support.waiting import wait_until

CLOSING: Final = stop_listening.__module__


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


def test_connections_that_were_made_are_accepted_and_new_ones_refused(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CLOSING}._ACCEPTING_SECONDS", 60)  # this machine may be slow
    address = listener.getsockname()
    made = [socket.create_connection(address) for _ in range(5)]
    stopping = Thread(target=stop_listening, args=([listener],))
    stopping.start()
    time.sleep(0.3)
    assert stopping.is_alive()  # it waits for those that nobody has accepted
    accepted = [listener.accept()[0] for _ in made]
    stopping.join()
    for ours, theirs in zip(made, accepted, strict=True):
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"
        ours.close()
        theirs.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_connection_during_the_stop_is_refused_and_never_reset(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()

    def drop_and_say(listener: socket.socket) -> None:
        _drop_new_connections(listener)
        begun.set()

    monkeypatch.setattr(f"{CLOSING}._drop_new_connections", drop_and_say)
    address = listener.getsockname()
    stopping = Thread(target=stop_listening, args=([listener],))
    stopping.start()
    assert begun.wait(60)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=60)
    stopping.join()


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
