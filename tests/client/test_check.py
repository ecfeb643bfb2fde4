"""`python -m tallystick check`: one sentence on each thing that can be wrong with a DSN."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallystick import __main__ as command
from tallystick.sending import checking, connection
from tallystick.sending.checking import check
from tallystick.sending.dsn import parse_dsn
from tests.cases import data_of, each_case
from tests.client.collector import Collector, Silent, refusing_dsn
from tests.client.environments import run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 0.3)


def _sentence(dsn: str) -> str:
    verdict = check(dsn)
    assert not verdict.can_send
    assert "ik_test" not in verdict.sentence
    return verdict.sentence


def test_a_service_that_takes_the_key_is_right() -> None:
    with Collector(422) as collector:
        verdict = check(collector.dsn)
        assert verdict == (
            True,
            f"The service at {collector.url} accepts this key. Records can be sent.",
        )
    (request,) = collector.requests
    assert (request["path"], request["Authorization"]) == ("/api/v2/ingest", "Bearer ik_test")
    assert collector.records == []


def test_an_older_service_is_right() -> None:
    with Collector(422) as collector:
        collector.missing = {"/api/v2/ingest"}
        assert check(collector.dsn).can_send


@each_case(("status", "part"), data_of(__file__)["answers"])
def test_each_answer_has_a_sentence(status: int, part: str) -> None:
    with Collector(status) as collector:
        assert part in _sentence(collector.dsn)


@each_case(
    ("dsn", "part"),
    [
        ("", "SERVICE_DSN is not set. Set SERVICE_DSN to https://<INGEST_KEY>@<host>"),
        ("tallystick.example", "SERVICE_DSN is not a DSN"),
        ("https://tallystick.example", "SERVICE_DSN is not a DSN"),
        ("http://ik_test@tallystick.example", "would send the ingest key unencrypted"),
        ("file:///nowhere/at/all", "The folder /nowhere/at does not exist"),
        ("file:///tmp", "/tmp can't be written"),
    ],
)
def test_what_is_no_dsn_is_said_without_a_connection(dsn: str, part: str) -> None:
    assert part in _sentence(dsn)


def test_a_file_is_right(tmp_path: Path) -> None:
    file = tmp_path / "usage.jsonl"
    assert check(file.as_uri()) == (True, f"Records are written to {file}. Nothing is sent.")
    assert not file.exists()


def test_a_host_that_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*arguments: object, **named: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    sentence = _sentence("https://ik_test@tallystick.invalid")
    assert sentence.startswith("The host tallystick.invalid was not found. Check its spelling")


def test_a_port_that_refuses_or_says_nothing() -> None:
    assert "refuses connections" in _sentence(refusing_dsn())
    # A server that says nothing.
    with Silent() as silent:
        assert "did not answer within 0.3 seconds" in _sentence(silent.dsn)


def test_a_server_that_speaks_neither_tls_nor_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            for _ in range(2):
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(b"220 mail.example ESMTP\r\n")
                    peer.recv(65_536)

        threading.Thread(target=babble, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert "does not speak TLS on this port" in _sentence(f"https://ik_test@{address}")
        assert "did not answer with HTTP" in _sentence(f"http://ik_test@{address}")


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    subprocess.run(
        [*command, "/CN=localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Collector(422) as collector:
        collector.socket = context.wrap_socket(collector.socket, server_side=True)
        monkeypatch.setattr(collector, "handle_error", lambda *request: None)
        dsn = collector.dsn.replace("http://", "https://")
        assert "can't be verified (self" in _sentence(dsn)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "Use the name that it is for" in _sentence(dsn)


@pytest.mark.parametrize(("code", "part"), [(10, "or set the clock"), (20, "SSL_CERT_FILE")])
def test_an_expired_certificate_may_be_a_wrong_clock(code: int, part: str) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "certificate has expired"
    destination = parse_dsn("https://ik_test@tallystick.example")
    assert destination is not None
    assert part in checking._explain(error, destination)


@pytest.mark.parametrize(
    ("seconds", "part"), [(600, "10 minutes ahead of"), (-7_200, "120 minutes behind")]
)
def test_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch, seconds: float, part: str) -> None:
    wrong = SimpleNamespace(time=lambda: time.time() + seconds)
    monkeypatch.setattr(checking, "time", wrong)
    with Collector(422) as collector:
        assert part in _sentence(collector.dsn)


def test_the_command_exits_with_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["tallystick", *arguments])
        return command.main()

    monkeypatch.setenv("SERVICE_DSN", (tmp_path / "a").as_uri())
    assert call("check") == 0
    assert capsys.readouterr().out.startswith("OK: Records are written to")
    monkeypatch.setenv("SERVICE_DSN", "http://ik_test@tallystick.example")
    assert call("check") == 1
    assert capsys.readouterr().err.startswith("Error: SERVICE_DSN would send")
    assert (call(), call("report"), call("check", "--fast")) == (2, 2, 2)
    assert call("--help") == 0
    monkeypatch.setattr(sys, "argv", ["tallystick-check"])
    assert command.check() == 1


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    dsn = (tmp_path / "a").as_uri()
    assert run(sys.executable, "-m", "tallystick", "check", SERVICE_DSN=dsn).startswith("OK: ")
