"""Connections to a Redis that accepts and never answers: how often a client tries."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

from service.config import Config
from service.core.redis import connect, connection_options
from tests.service.support.changing import change_config


class HangingServer:
    """Accept connections and count them."""

    def __init__(self) -> None:
        self.accepted: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.accepted.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.accepted:
            connection.close()


@pytest.fixture
def hanging() -> Iterator[HangingServer]:
    server = HangingServer()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("make", "tries"),
    [
        (connect, 2),
        (lambda config: Redis.from_url(config.redis_url, **connection_options(config)), 1),
    ],
    ids=["queues, worker and health", "rate limiter"],
)
def test_a_hang_is_tried_again_except_by_the_rate_limiter(
    config: Config,
    hanging: HangingServer,
    make: Callable[[Config], "Redis"],
    tries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = change_config(
        config,
        monkeypatch,
        redis_url=f"redis://127.0.0.1:{hanging.port}",
        redis_timeout_seconds=0.2,
    )
    client = make(settings)
    with pytest.raises(RedisTimeoutError):
        client.ping()
    client.close()
    assert len(hanging.accepted) == tries
