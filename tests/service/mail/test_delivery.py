"""Deliver mail to a real SMTP server and to a folder."""

import os
import shutil
import smtplib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.headerregistry import Address
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.smtp import AuthResult

from service.config import Config
from service.mail.delivery import RefusedError, deliver
from tests.smtp_sink import Sink, running_sink


@pytest.fixture
def message() -> EmailMessage:
    message = EmailMessage(policy.SMTP.clone(cte_type="7bit"))
    message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", "Hi"
    message.set_content("Gr\xfc\xdfe\n.\nFrom here on\n")
    return message


@pytest.fixture
def sink() -> Iterator[Sink]:
    with running_sink() as sink:
        yield sink


def test_a_server_takes_it_as_it_was_written(
    config: Config, sink: Sink, message: EmailMessage
) -> None:
    deliver(replace(config, smtp_url=sink.url), message, "m1")
    [(recipient, taken)] = sink.taken
    assert recipient == "b@example.org"
    assert taken.get_content().splitlines() == message.get_content().splitlines()


def test_an_address_with_other_letters_needs_a_server_that_takes_them(config: Config) -> None:
    message = EmailMessage(policy.SMTP.clone(cte_type="7bit", utf8=True))
    message["From"], message["Subject"] = "a@example.org", "Hi"
    message["To"] = Address(username="j\xf6rg", domain="example.org")
    message.set_content("Hi")
    with running_sink(enable_SMTPUTF8=True) as sink:
        deliver(replace(config, smtp_url=sink.url), message, "m1")
        assert [recipient for recipient, _ in sink.taken] == ["j\xf6rg@example.org"]
    with running_sink(enable_SMTPUTF8=False) as sink, pytest.raises(RefusedError):
        deliver(replace(config, smtp_url=sink.url), message, "m1")


def test_a_name_and_a_password_are_shown_to_the_server(
    config: Config, message: EmailMessage
) -> None:
    seen = []

    def check(_server: object, _session: object, _env: object, _how: str, login: object) -> object:
        seen.append((getattr(login, "login", None), getattr(login, "password", None)))
        return AuthResult(success=True)

    with running_sink(authenticator=check, auth_require_tls=False) as sink:
        url = f"smtp://a%40b:p%2Fw@127.0.0.1:{sink.port}"
        deliver(replace(config, smtp_url=url), message, "m1")
        assert len(sink.taken) == 1
    assert seen == [(b"a@b", b"p/w")]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
def test_with_tls_only_a_server_that_proves_its_name_gets_the_mail(
    config: Config,
    message: EmailMessage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    certificate, tls = _certify(tmp_path)
    how = {"ssl_context" if scheme == "smtps" else "tls_context": tls}
    with running_sink(**how) as sink:
        known = replace(config, smtp_url=f"{scheme}://localhost:{sink.port}")
        with pytest.raises(ssl.SSLCertVerificationError):
            deliver(known, message, "m1")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        deliver(known, message, "m1")
        with pytest.raises(ssl.SSLCertVerificationError):
            deliver(replace(known, smtp_url=f"{scheme}://127.0.0.1:{sink.port}"), message, "m1")
        assert len(sink.taken) == 1


def _certify(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of this machine's own name, and a server's end of TLS with it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out"]
    subprocess.run(
        ["openssl", *options.split(), *names, str(certificate)], check=True, capture_output=True
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    return certificate, tls


def test_a_server_without_tls_gets_no_password_where_tls_is_asked_for(
    config: Config, sink: Sink, message: EmailMessage
) -> None:
    url = f"smtp+starttls://name:password@127.0.0.1:{sink.port}"
    with pytest.raises(smtplib.SMTPNotSupportedError):
        deliver(replace(config, smtp_url=url), message, "m1")
    assert sink.taken == []


def test_a_rejection_for_good_is_recognized_and_one_for_now_is_repeated(
    config: Config, sink: Sink, message: EmailMessage
) -> None:
    own = replace(config, smtp_url=sink.url)
    sink.recipient_answers, sink.answers = ["550 No such mailbox", "553 Not here"], ["554 No"]
    for _ in range(3):
        with pytest.raises(RefusedError):
            deliver(own, message, "m1")
    sink.recipient_answers, sink.answers = ["450 Later"], ["451 Later"]
    for _ in range(2):
        with pytest.raises(OSError, match="Later"):
            deliver(own, message, "m1")
    deliver(own, message, "m1")
    assert len(sink.taken) == 1
    sink.stop()
    with pytest.raises(OSError, match="refused"):
        deliver(own, message, "m1")


def test_a_server_that_disconnects_after_accepting_the_mail_has_accepted_it(
    config: Config, message: EmailMessage
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=_take_and_hang_up, args=(listener,))
        thread.start()
        deliver(replace(config, smtp_url=f"smtp://127.0.0.1:{port}"), message, "m1")
        thread.join()


def _take_and_hang_up(listener: socket.socket) -> None:
    connection, _address = listener.accept()
    with connection, connection.makefile("rwb") as lines:
        lines.write(b"220 hello\r\n")
        lines.flush()
        for answer in (b"250 ok", b"250 ok", b"250 ok", b"354 go on"):
            lines.readline()
            lines.write(answer + b"\r\n")
            lines.flush()
        while lines.readline() != b".\r\n":
            pass
        lines.write(b"250 taken\r\n")
        lines.flush()


def test_without_a_server_it_is_a_file_that_only_its_owner_reads(
    config: Config, tmp_path: Path, message: EmailMessage
) -> None:
    outbox = tmp_path / "deep" / "outbox"
    for _ in range(2):  # a repetition is the same file
        deliver(replace(config, outbox_folder=str(outbox)), message, "m1")
    [path] = outbox.iterdir()
    assert path.name == "m1.eml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert outbox.stat().st_mode & 0o777 == 0o700
    read = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert isinstance(read, EmailMessage)
    assert read.get_content().splitlines() == message.get_content().splitlines()


def test_a_file_that_cannot_be_written_leaves_nothing(
    config: Config, tmp_path: Path, message: EmailMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        deliver(replace(config, outbox_folder=str(tmp_path)), message, "m1")
    assert list(tmp_path.iterdir()) == []
