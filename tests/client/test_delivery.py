"""Records on their way: batches, how they are posted, and what is done with those that fail."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import tallystick
from tallystick import capture
from tallystick.sending import connection
from tallystick.sending.delivery import Delivery
from tallystick.sending.records import Asked, Record
from tallystick.sending.transport import Answer
from tests.cases import each_case
from tests.client.collector import Collector, Silent, refusing_dsn
from tests.client.offline import capturing, record_calls
from tests.worker.support.waiting import wait_until


def test_a_flush_sends_what_waits(collector: Collector) -> None:
    with capturing(collector.dsn, tag="nightly"):
        record_calls(3)
        assert tallystick.flush(5)
        assert tallystick.flush(5)
        assert tallystick.stats() == {
            "captured": 3,
            "sent": 3,
            "queued": 0,
            "dropped": 0,
            "dropped_by_reason": {},
            "unknown_fields": {},
            "last_error": None,
            "uncaptured": {},
            "without_usage": 0,
            "faults": 0,
            "paused": False,
        }
    assert collector.problems == []
    assert [record["prompt_tokens"] for record in collector.records] == [0, 1, 2]
    assert {record["tag"] for record in collector.records} == {"nightly"}


def test_batches_hold_at_most_five_thousand(collector: Collector) -> None:
    with capturing(collector.dsn, max_queue=50_000):
        record_calls(12_000)
        assert tallystick.flush(20)
    assert sum(map(len, collector.batches)) == 12_000
    assert max(map(len, collector.batches)) <= 5_000
    assert len({request["Idempotency-Key"] for request in collector.requests}) == len(
        collector.batches
    )


def test_half_a_queue_does_not_wait_for_the_interval(collector: Collector) -> None:
    with capturing(collector.dsn, max_queue=100):
        record_calls(49)
        time.sleep(0.2)
        assert not collector.records
        record_calls(1)
        wait_until(lambda: len(collector.records) == 50, 10)


def test_a_full_queue_drops_the_oldest_and_counts_them(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(collector.dsn, max_queue=100):
        current = capture.active
        assert current is not None
        with monkeypatch.context() as patch:
            patch.setattr(current.delivery, "_rouse", lambda: None)
            record_calls(250)
        assert tallystick.stats()["dropped"] == 150
        assert tallystick.stats()["dropped_by_reason"] == {"queue full": 150}
        tallystick.flush(5)
        assert [record["prompt_tokens"] for record in collector.records] == list(range(150, 250))


def test_a_dead_server_costs_its_records_and_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with capturing(refusing_dsn()):
        record_calls(2)
        assert not tallystick.flush(5)
        stats = tallystick.stats()
        assert stats["dropped"] == 2
        assert stats["dropped_by_reason"] == {"ConnectionRefusedError": 2}
        assert stats["last_error"] == "ConnectionRefusedError"
        assert tallystick.flush(5)  # nothing was queued
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("count", "records"), [(1, "1 record was"), (2, "2 records were")])
def test_debug_says_what_was_dropped_and_why(
    count: int, records: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector(422) as collector, capturing(collector.dsn, debug=True):
        record_calls(count)
        tallystick.flush(5)
    assert caplog.messages == [f"{records} dropped: status 422"]


def test_a_flush_respects_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may take longer for a flush than a program would wait for a service.
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(connection, "TOTAL_SECONDS", 60)
    with Silent() as silent, capturing(silent.dsn):
        record_calls()
        before = time.monotonic()
        assert not tallystick.flush(0.2)
        assert not tallystick.flush(-1)
        assert time.monotonic() - before < connection.TIMEOUT_SECONDS


def test_many_threads_lose_and_duplicate_nothing(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    # On a busy machine the collector may take longer for 5,000 records than a program would wait.
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(connection, "TOTAL_SECONDS", 60)
    before = set(threading.enumerate())
    with capturing(collector.dsn, max_queue=100_000):
        threads = [threading.Thread(target=record_calls, args=(2_000,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert tallystick.flush(60)
        stats = tallystick.stats()
    assert (stats["captured"], stats["sent"]) == (16_000, 16_000), stats
    assert len(collector.records) == 16_000
    begun = set(threading.enumerate()) - before
    assert sum(thread.name == "tallystick" for thread in begun) <= 1


def test_a_thread_that_cannot_start_loses_records_and_no_more(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with capturing(collector.dsn):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert not tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
        assert tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
        assert not tallystick.flush(0.05)


def test_a_sender_that_cannot_be_made_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, collector: Collector
) -> None:
    with capturing(collector.dsn, debug=True):
        current = capture.active
        assert current is not None
        monkeypatch.setattr(current.delivery, "_make_sender", lambda: 1 / 0)
        record_calls()
        wait_until(lambda: caplog.messages, 10)
    assert caplog.messages == ["sending stopped: ZeroDivisionError"]


RECORD = Record(Asked("openai"), 1_700_000_000.0, "gpt-4o", 1, 1)


class _Sender:
    """Takes batches as long as `during`, which is called while each is on its way, lets it."""

    def __init__(self, during: Callable[[], None]) -> None:
        self.sizes: list[int] = []
        self._during = during

    def send(self, batch: list[Record]) -> Answer:
        self.sizes.append(len(batch))
        self._during()
        return Answer(len(batch), 0.0, "")


def _delivery(sender: _Sender) -> Delivery:
    return Delivery(
        lambda: None, lambda: sender, interval=3_600, max_queue=5_000, report=lambda message: None
    )


def test_a_busy_program_still_sends_full_batches() -> None:
    """What is added while a batch is on its way waits for the next time, and holds up no flush."""

    def add_three() -> None:
        for _ in range(3):
            delivery.put(RECORD)

    sender = _Sender(add_three)
    delivery: Delivery = _delivery(sender)
    for _ in range(100):
        delivery.put(RECORD)
    assert delivery.flush(5)
    assert sender.sizes == [100]
    assert delivery.flush(5)
    assert sender.sizes == [100, 3]
    stats = delivery.stats()
    assert (stats["captured"], stats["sent"], stats["queued"], stats["dropped"]) == (106, 103, 3, 0)
    delivery.close(5)


@each_case(
    ("interval", "reason", "later"),
    [(60, "status 429", 120), (3_000, "status 429", 3_600), (7_200, "status 429", 7_200)]
    + [(60, "status 503", 60)],
)
def test_a_process_of_many_sends_less_often_when_the_service_says_so(
    interval: float, reason: str, later: float
) -> None:
    delivery = _delivery(_Sender(lambda: None))
    delivery._interval = interval
    delivery._queue.append(RECORD)
    delivery._send(SimpleNamespace(send=lambda batch: Answer(0, 0.0, reason)), 1)
    assert delivery._interval == later


def test_a_flush_waits_for_requests_in_flight() -> None:
    under_way, arrive = threading.Event(), threading.Event()

    def hold() -> None:
        under_way.set()
        assert arrive.wait(10)

    delivery = _delivery(_Sender(hold))
    delivery.put(RECORD)
    assert not delivery.flush(0)
    assert under_way.wait(10)
    stats = delivery.stats()
    assert (stats["captured"], stats["sent"], stats["queued"], stats["dropped"]) == (1, 0, 0, 0)
    assert not delivery.flush(0.05)
    arrive.set()
    assert delivery.flush(10)
    assert delivery.stats()["sent"] == 1


def test_the_queue_is_not_empty_while_a_batch_is_being_sent() -> None:
    seen: list[bool] = []

    class Queue(list[Record]):
        def popleft(self) -> Record:
            record = self.pop(0)
            seen.append(delivery.flush(0))
            return record

    delivery = _delivery(_Sender(lambda: None))
    delivery.start()
    delivery._queue = Queue([RECORD])  # type: ignore[assignment]
    assert delivery.flush(5)
    assert seen == [False]


def test_after_the_end_a_flush_does_not_wait() -> None:
    delivery = _delivery(_Sender(lambda: None))
    delivery.put(RECORD)
    assert delivery.close(5)
    thread = delivery._thread
    assert thread is not None
    thread.join(5)
    delivery.put(RECORD)
    before = time.monotonic()
    assert not delivery.flush(60)
    assert time.monotonic() - before < 30
