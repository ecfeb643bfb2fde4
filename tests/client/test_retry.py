"""`init(retry=True)`: a batch that fails on the way is posted once more, with the same key."""

from __future__ import annotations

import socket
import time

import pytest

import tallystick
from tallystick.sending import connection, transport
from tests.cases import each_case
from tests.client.collector import Collector, refusing_dsn
from tests.client.offline import capturing, record_calls

BROKEN = 0


class Recovering(Collector):
    """Answers the first batches with these statuses, and all others with 201."""

    def __init__(self, *statuses: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(headers=headers)
        self._statuses = list(statuses)

    @property
    def status(self) -> int:
        status = self._statuses.pop(0) if self._statuses else 201
        if status == BROKEN:
            raise ConnectionResetError
        return status

    @status.setter
    def status(self, status: int) -> None:
        pass

    def handle_error(self, *request: object) -> None:
        """Say nothing: the connection is closed without an answer."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.0)


@each_case("status", [429, 500, 502, 503, 529])
def test_a_batch_is_posted_again_with_its_key(status: int) -> None:
    with Recovering(status) as collector, capturing(collector.dsn, retry=True):
        record_calls(3)
        assert tallystick.flush(5)
        stats = tallystick.stats()
    first, second = collector.requests
    assert first["Idempotency-Key"] == second["Idempotency-Key"]
    assert len(collector.records) == stats["sent"] == 3
    assert stats["last_error"] is None


def test_it_is_posted_twice_at_most() -> None:
    with Recovering(503, 502) as collector, capturing(collector.dsn, retry=True):
        record_calls()
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"status 502": 1}
    assert len(collector.requests) == 2


@each_case("status", [301, 400, 401, 402, 404, 413, 422])
def test_an_answer_that_stays_the_same_is_not_asked_for_again(status: int) -> None:
    with Collector(status) as collector, capturing(collector.dsn, retry=True):
        record_calls()
        assert not tallystick.flush(5)
    assert len(collector.requests) == (2 if status == 404 else 1)  # 404: of the other version


def test_it_waits_as_long_as_the_service_says() -> None:
    headers = {"Retry-After": "1"}
    with Recovering(429, headers=headers) as slow, capturing(slow.dsn, retry=True):
        record_calls()
        before = time.monotonic()
        assert tallystick.flush(60)
        assert 1 <= time.monotonic() - before < 30
    assert len(slow.requests) == 2


def test_it_does_not_wait_longer_than_a_batch_may_take() -> None:
    headers = {"Retry-After": "60"}
    with Recovering(503, headers=headers) as busy, capturing(busy.dsn, retry=True):
        record_calls()
        before = time.monotonic()
        assert not tallystick.flush(60)
        assert time.monotonic() - before < 30
        assert tallystick.stats()["paused"]
    assert len(busy.requests) == 1


def test_both_attempts_share_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers costs what one attempt may take."""
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(connection, "TOTAL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"http://ik_test@127.0.0.1:{silent.getsockname()[1]}"
        with capturing(dsn, retry=True):
            record_calls()
            before = time.monotonic()
            assert not tallystick.flush(60)
            assert time.monotonic() - before < 30


def test_a_connection_that_breaks_is_tried_again() -> None:
    """The service may have accepted the batch: it recognizes the key."""
    with Recovering(BROKEN) as collector, capturing(collector.dsn, retry=True):
        record_calls()
        assert tallystick.flush(5)
    first, second = collector.requests
    assert first["Idempotency-Key"] == second["Idempotency-Key"]
    assert len(collector.records) == 1


def test_a_network_that_is_gone_drops_the_batch() -> None:
    with capturing(refusing_dsn(), retry=True):
        record_calls(2)
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"ConnectionRefusedError": 2}


def test_by_default_nothing_is_posted_again() -> None:
    with Recovering(503) as collector, capturing(collector.dsn):
        record_calls()
        assert not tallystick.flush(5)
    assert len(collector.requests) == 1
