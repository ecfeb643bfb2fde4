"""The thread that sends: when it wakes, how long it waits, and who waits for it."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import tallystick
from tallystick import capture
from tallystick.sending import connection
from tallystick.sending.delivery import Delivery
from tests.client import offline
from tests.client.collector import Collector, Silent
from tests.client.offline import capturing, record_calls
from tests.client.styles import CHAT
from tests.client.test_delivery import RECORD, _delivery, _Sender
from tests.client.test_sending import _check_pause
from tests.worker.support.waiting import wait_until


def test_hooked_calls_are_sent_automatically(collector: Collector) -> None:
    with capturing(collector.dsn, flush_interval=0.05):
        offline.openai_client().chat.completions.create(**CHAT)
        wait_until(lambda: collector.records, 10)


def test_between_two_intervals_the_thread_sleeps() -> None:
    woken: list[int] = []

    class Watched(Delivery):
        def _send(self, sender: Any, least: int) -> None:
            woken.append(least)

    delivery = Watched(
        lambda: None, object, interval=0.1, max_queue=10, report=lambda message: None
    )
    delivery.start()
    time.sleep(0.55)
    delivery.close(5)
    assert 1 <= len(woken) <= 7


def test_a_server_that_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection.TIMEOUT_SECONDS <= 5
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 0.1)
    with Silent() as silent, capturing(silent.dsn):
        record_calls()
        assert not tallystick.flush(10)
        assert tallystick.stats()["dropped_by_reason"] == {"TimeoutError": 1}


def test_a_server_that_is_overloaded_may_ask_for_a_pause() -> None:
    overloaded = Collector(503, {"Retry-After": "120"})
    with overloaded as collector, capturing(collector.dsn):
        _check_pause(collector, 120)


def test_an_invalid_record_does_not_drop_others(collector: Collector) -> None:
    with capturing(collector.dsn):
        current = capture.active
        assert current is not None
        current.delivery.put(RECORD._replace(model=""))
        assert not tallystick.flush(5)
        assert collector.requests == []
        current.delivery.put(RECORD._replace(model=""))
        record_calls()
        assert not tallystick.flush(5)
        assert tallystick.stats()["sent"] == 1
        assert tallystick.stats()["dropped_by_reason"] == {"invalid record": 2}
    assert len(collector.records) == 1


def test_a_flush_that_comes_as_the_thread_ends_is_answered() -> None:
    delivery = _delivery(_Sender(lambda: None))
    answered = threading.Lock()
    answered.acquire()

    def come() -> None:
        delivery._flushes.append(answered)
        delivery._rouse()

    delivery.start()
    delivery.is_closing = True
    delivery._flushes.append(SimpleNamespace(release=come))
    delivery._rouse()
    assert answered.acquire(timeout=60)


@pytest.mark.parametrize("timeout", [1e12, float("inf"), None])
def test_a_flush_without_timeout_waits_until_everything_is_sent(
    timeout: float | None, collector: Collector
) -> None:
    with capturing(collector.dsn):
        record_calls()
        assert tallystick.flush(timeout)
    assert len(collector.records) == 1


def test_processes_that_are_started_together_do_not_send_together(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    intervals = set()
    for number in range(10):
        monkeypatch.setattr("os.getpid", lambda number=number: number)
        with capturing(collector.dsn):
            assert capture.active is not None
            intervals.add(capture.active.delivery._interval)
    assert len(intervals) == 10
    assert all(0.9 * 60 <= interval <= 1.1 * 60 for interval in intervals)
