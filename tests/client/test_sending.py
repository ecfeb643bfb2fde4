"""Batches on the network: how they are posted, and what each answer means for the next ones."""

import gzip
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

import tallystick
from tallystick import capture
from tallystick.sending import connection
from tallystick.sending import transport as sending
from tests.cases import each_case
from tests.client.collector import Collector
from tests.client.environments import run
from tests.client.offline import capturing, record_calls


def test_a_batch_is_posted_as_the_service_wants_it(collector: Collector) -> None:
    with capturing(collector.dsn):
        record_calls()
        tallystick.flush(5)
    (request,) = collector.requests
    assert request["path"] == "/api/v2/ingest"
    assert request["Authorization"] == "Bearer ik_test"
    assert request["Content-Type"] == "application/json"
    assert request["Content-Encoding"] == "gzip"
    body = json.dumps({"records": collector.records}, separators=(",", ":"))
    assert request["Idempotency-Key"] == hashlib.sha256(body.encode()).hexdigest()
    assert request["User-Agent"] == f"tallystick-python/{tallystick.__version__}"


@pytest.mark.parametrize(("status", "seconds"), [(401, 600), (402, 600)])
def test_a_refused_key_pauses_sending(status: int, seconds: float) -> None:
    with Collector(status) as collector, capturing(collector.dsn):
        _check_pause(collector, seconds)


@each_case(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({}, 60),
        ({"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, 3_600),
        ({"Retry-After": "in a while"}, 60),
        ({"Retry-After": "99999999999999"}, 3_600),
        ({"Retry-After": "999999999"}, 3_600),
    ],
)
def test_a_rate_limit_drops_records(headers: dict[str, str], seconds: float) -> None:
    with Collector(429, headers) as collector, capturing(collector.dsn):
        _check_pause(collector, seconds)


def test_a_limit_may_name_a_date() -> None:
    in_five_minutes = format_datetime(datetime.now(UTC) + timedelta(seconds=301), usegmt=True)
    headers = {"Retry-After": in_five_minutes}
    with Collector(429, headers) as collector, capturing(collector.dsn):
        _check_pause(collector, 301)


def _check_pause(collector: Collector, seconds: float) -> None:
    record_calls(2)
    assert not tallystick.flush(5)
    collector.status = 201
    record_calls(3)
    assert not tallystick.flush(5)
    assert len(collector.requests) == 1
    stats = tallystick.stats()
    assert stats["paused"]
    assert stats["dropped_by_reason"] == {stats["last_error"]: 2, "paused": 3}
    current = capture.active
    assert current is not None
    left = current.delivery._paused_until - time.monotonic()
    assert seconds - 10 < left <= seconds
    current.delivery._paused_until = 0
    record_calls()
    assert tallystick.flush(5)
    assert len(collector.records) == 1


@pytest.mark.parametrize("status", [400, 413, 422, 500, 502, 301, 307])
def test_rejected_batches_are_not_retried(status: int, collector: Collector) -> None:
    with Collector(status, {"Location": collector.url}) as refusing:
        with capturing(refusing.dsn):
            record_calls(2)
            assert not tallystick.flush(5)
            assert tallystick.stats()["dropped_by_reason"] == {f"status {status}": 2}
            assert not tallystick.stats()["paused"]
        assert len(refusing.requests) == 1
    assert collector.requests == []  # the key went nowhere else


def test_the_body_is_what_the_service_unpacks(collector: Collector) -> None:
    body, digest = sending._pack(['{"a":1}'] * 450)
    whole = gzip.decompress(body)
    assert json.loads(whole) == {"records": [{"a": 1}] * 450}
    assert hashlib.sha256(whole).hexdigest() == digest


SECURE = """
import tallystick
tallystick.init()
tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
print(tallystick.flush(10), tallystick.stats()["sent"])
"""


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_https_works_and_an_untrusted_certificate_is_rejected(tmp_path: Path) -> None:
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
        assert run(sys.executable, "-c", SECURE, **trusted) == "True 1\n"
        assert run(sys.executable, "-c", SECURE, SERVICE_DSN=dsn) == "False 0\n"
    assert len(collector.records) == 1


@pytest.mark.parametrize("has_certifi", [True, False])
def test_a_python_without_certificates_uses_certifis(
    has_certifi: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    if not has_certifi:
        monkeypatch.setitem(sys.modules, "certifi", None)
    context = connection.make_trust()
    assert context.verify_mode is ssl.CERT_REQUIRED
    if has_certifi:
        assert context.get_ca_certs()


def test_a_proxy_that_the_environment_names_is_used(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setenv("http_proxy", collector.url)
    monkeypatch.setenv("no_proxy", "localhost")
    with capturing("http://ik_test@tallystick.invalid", allow_http=True):
        record_calls()
        assert tallystick.flush(5)
    assert collector.requests[0]["path"] == "http://tallystick.invalid/api/v2/ingest"


def test_proxies_come_only_from_the_environment_where_processes_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "getproxies", lambda: {"http": "http://of-the-system"})
    monkeypatch.setattr(connection, "getproxies_environment", dict)
    assert connection._proxies() == {}
    monkeypatch.delattr(os, "fork")
    assert connection._proxies() == {"http": "http://of-the-system"}
