"""Records on their way: batches, how they are posted, and what is done with those that fail."""

import gzip
import hashlib
import json
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tallystick
from tallystick import capture
from tests.client.collector import Collector, Silent, refusing_dsn
from tests.client.environments import run
from tests.client.offline import capturing


def _record(count: int = 1) -> None:
    for number in range(count):
        assert tallystick.record(model="gpt-4o", prompt_tokens=number, completion_tokens=1)


def wait_until(is_true: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_flush_sends_what_waits(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    with capturing(monkeypatch, collector.dsn, tag="nightly"):
        _record(3)
        assert tallystick.flush(5)
        assert tallystick.flush(5)
        assert tallystick.stats() == {
            "captured": 3,
            "sent": 3,
            "queued": 0,
            "dropped": 0,
            "without_usage": 0,
            "faults": 0,
            "paused": False,
        }
    assert collector.problems == []
    assert [record["prompt_tokens"] for record in collector.records] == [0, 1, 2]
    assert {record["tag"] for record in collector.records} == {"nightly"}


def test_a_batch_is_posted_as_the_service_wants_it(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn):
        _record()
        tallystick.flush(5)
    (request,) = collector.requests
    assert request["path"] == "/api/v1/ingest"
    assert request["Authorization"] == "Bearer ik_test"
    assert request["Content-Type"] == "application/json"
    assert request["Content-Encoding"] == "gzip"
    body = json.dumps({"records": collector.records}, separators=(",", ":"))
    assert request["Idempotency-Key"] == hashlib.sha256(body.encode()).hexdigest()
    assert request["User-Agent"] == f"tallystick-python/{tallystick.__version__}"


def test_batches_hold_at_most_five_thousand(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, max_queue=50_000):
        _record(12_000)
        assert tallystick.flush(20)
    assert sum(map(len, collector.batches)) == 12_000
    assert max(map(len, collector.batches)) <= 5_000
    assert len({request["Idempotency-Key"] for request in collector.requests}) == len(
        collector.batches
    )


def test_the_interval_sends_by_itself(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, flush_interval=0.05):
        _record()
        wait_until(lambda: collector.records)
        _record()
        wait_until(lambda: len(collector.records) == 2)


def test_half_a_queue_does_not_wait_for_the_interval(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, max_queue=100):
        _record(49)
        time.sleep(0.2)
        assert not collector.records
        _record(1)
        wait_until(lambda: len(collector.records) == 50)


def test_a_full_queue_drops_the_oldest_and_counts_them(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, max_queue=100):
        current = capture.active
        assert current is not None
        with monkeypatch.context() as patch:
            patch.setattr(current.delivery, "_rouse", lambda: None)
            _record(250)
        assert tallystick.stats()["dropped"] == 150
        tallystick.flush(5)
        assert [record["prompt_tokens"] for record in collector.records] == list(range(150, 250))


@pytest.mark.parametrize(("status", "seconds"), [(401, 600), (402, 600)])
def test_a_refused_key_pauses_sending(
    monkeypatch: pytest.MonkeyPatch, status: int, seconds: float
) -> None:
    with Collector(status) as collector, capturing(monkeypatch, collector.dsn):
        _check_pause(collector, seconds)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({}, 60),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 60),
        ({"Retry-After": "99999999999999"}, 60),
        ({"Retry-After": "999999999"}, 3_600),
    ],
)
def test_a_limit_is_honoured_by_dropping(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], seconds: float
) -> None:
    with Collector(429, headers) as collector, capturing(monkeypatch, collector.dsn):
        _check_pause(collector, seconds)


def _check_pause(collector: Collector, seconds: float) -> None:
    _record(2)
    assert tallystick.flush(5)
    collector.status = 201
    _record(3)
    assert tallystick.flush(5)
    assert len(collector.requests) == 1
    stats = tallystick.stats()
    assert stats["paused"]
    assert stats["dropped"] == 5
    current = capture.active
    assert current is not None
    left = current.delivery._paused_until - time.monotonic()
    assert seconds - 10 < left <= seconds
    current.delivery._paused_until = 0
    _record()
    assert tallystick.flush(5)
    assert len(collector.records) == 1


@pytest.mark.parametrize("status", [400, 413, 422, 500, 502, 301, 307])
def test_what_is_not_taken_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, status: int, collector: Collector
) -> None:
    with Collector(status, {"Location": collector.url}) as refusing:
        with capturing(monkeypatch, refusing.dsn):
            _record(2)
            assert tallystick.flush(5)
            assert tallystick.stats()["dropped"] == 2
            assert not tallystick.stats()["paused"]
        assert len(refusing.requests) == 1
    assert collector.requests == []  # the key went nowhere else


def test_a_dead_server_costs_its_records_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with capturing(monkeypatch, refusing_dsn()):
        _record(2)
        assert tallystick.flush(5)
        assert tallystick.stats()["dropped"] == 2
    assert capfd.readouterr() == ("", "")


def test_debug_says_what_was_dropped_and_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector(422) as collector, capturing(monkeypatch, collector.dsn, debug=True):
        _record(2)
        tallystick.flush(5)
    assert caplog.messages == ["2 records were dropped: status 422"]


def test_a_flush_waits_no_longer_than_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Silent() as silent, capturing(monkeypatch, silent.dsn):
        _record()
        before = time.monotonic()
        assert not tallystick.flush(0.2)
        assert not tallystick.flush(-1)
        assert time.monotonic() - before < 0.4


def test_many_threads_lose_and_double_nothing(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, max_queue=100_000):
        threads = [threading.Thread(target=_record, args=(2_000,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert tallystick.flush(20)
        assert tallystick.stats()["captured"] == tallystick.stats()["sent"] == 16_000
    assert len(collector.records) == 16_000
    assert sum(thread.name == "tallystick" for thread in threading.enumerate()) <= 1


def test_a_thread_that_cannot_start_loses_records_and_no_more(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with capturing(monkeypatch, collector.dsn):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert not tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
        assert tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
        assert not tallystick.flush(0.05)


def test_a_sender_that_cannot_be_made_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, collector: Collector
) -> None:
    with capturing(monkeypatch, collector.dsn, debug=True):
        current = capture.active
        assert current is not None
        monkeypatch.setattr(current.delivery, "_make_sender", lambda: 1 / 0)
        _record()
        wait_until(lambda: caplog.messages)
    assert caplog.messages == ["nothing is sent any more: ZeroDivisionError"]


def test_the_body_is_what_the_service_unpacks(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    from tallystick.sending import _pack

    body, digest = _pack(['{"a":1}'] * 450)
    whole = gzip.decompress(body)
    assert json.loads(whole) == {"records": [{"a": 1}] * 450}
    assert hashlib.sha256(whole).hexdigest() == digest


SECURE = """
import tallystick
tallystick.init()
tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
assert tallystick.flush(10)
print(tallystick.stats()["sent"])
"""


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_https_is_spoken_and_a_strangers_certificate_is_not_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *name]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Collector() as collector:
        collector.socket = context.wrap_socket(collector.socket, server_side=True)
        dsn = collector.dsn.replace("http://", "https://")
        trusted = {"SERVICE_DSN": dsn, "SSL_CERT_FILE": str(certificate)}
        assert run(sys.executable, "-c", SECURE, **trusted) == "1\n"
        assert run(sys.executable, "-c", SECURE, SERVICE_DSN=dsn) == "0\n"
    assert len(collector.records) == 1


@pytest.mark.parametrize("has_certifi", [True, False])
def test_a_python_without_certificates_uses_certifis(
    has_certifi: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallystick import sending

    nothing = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    if not has_certifi:
        monkeypatch.setitem(sys.modules, "certifi", None)
    context = sending._trust()
    assert context.verify_mode is ssl.CERT_REQUIRED
    if has_certifi:
        assert context.get_ca_certs()
