"""One request to a checked address: what receivers can do to it, and what they can't."""

import datetime
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from service.notices import addresses, sending
from service.notices.addresses import PrivateTargetError
from service.notices.sending import ResponseError, send
from service.notices.urls import TargetURL, parse_url
from tests.cases import each_case
from tests.notice_receiver import (
    Answer,
    Receiver,
    drip,
    endless,
    flood,
    garbage,
    hang,
    redirect,
    resolving,
    running_receiver,
)


@pytest.fixture(scope="module")
def module_receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture
def receiver(module_receiver: Receiver) -> Receiver:
    module_receiver.reset()
    return module_receiver


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "WHOLE_SECONDS", 0.3)
    monkeypatch.setattr(sending, "_BODY_SECONDS", 0.1)


def _post(text: str, body: bytes = b"{}") -> int:
    url = parse_url(text, allows_private=True)
    return send(url, {"Content-Type": "application/json"}, body, allows_private=True)


def test_the_request_is_what_the_url_says(receiver: Receiver) -> None:
    assert _post(receiver.url("/hook?key=a%20b"), b'{"a":1}') == 204
    [received] = receiver.received
    assert (received.path, received.body) == ("/hook?key=a%20b", b'{"a":1}')
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert received.headers["content-length"] == "7"
    # No thread and no connection is left.
    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if "Timer" in name or name == "look-up"}


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = [redirect(receiver.url("/other")), redirect("http://169.254.169.254/")]
    assert [_post(receiver.url()), _post(receiver.url())] == [302, 302]
    assert [received.path for received in receiver.received] == ["/hook", "/hook"]


@each_case("answer", [hang, drip])
def test_a_receiver_that_takes_too_long_is_cut_off(
    receiver: Receiver, soon: None, answer: Answer
) -> None:
    receiver.answers, began = [answer], time.monotonic()
    with pytest.raises(TimeoutError):
        _post(receiver.url())
    assert time.monotonic() - began < 15


def test_a_body_that_never_ends_is_not_read(receiver: Receiver, soon: None) -> None:
    receiver.answers, began = [endless], time.monotonic()
    assert _post(receiver.url()) == 200
    assert time.monotonic() - began < 15


def test_what_is_not_http_and_a_closed_port_are_errors(receiver: Receiver) -> None:
    receiver.answers = [garbage, flood]
    for _ in range(2):
        with pytest.raises(ResponseError):
            _post(receiver.url())
    with pytest.raises(ConnectionRefusedError):
        _post("http://127.0.0.1:9/")


def test_a_proxy_of_the_environment_is_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert _post(receiver.url()) == 204


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"rebinding.example": [["127.0.0.1"], ["10.0.0.1"]]}
    monkeypatch.setattr(addresses, "look_up", resolving(known))
    url = receiver.url(host="rebinding.example")
    assert _post(url) == 204
    assert receiver.received[0].headers["host"] == f"rebinding.example:{receiver.port}"
    assert known == {"rebinding.example": [["10.0.0.1"]]}


def test_a_name_that_leads_inward_is_not_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"rebinding.example": [["93.184.216.34"], ["127.0.0.1"]]}
    monkeypatch.setattr(addresses, "look_up", resolving(known))
    url = TargetURL("http", "rebinding.example", receiver.port, "/")
    addresses.resolve(url.host, url.port, seconds=1)  # as when it was saved
    with pytest.raises(PrivateTargetError):
        send(url, {}, b"{}")
    assert receiver.received == []


def test_an_address_that_does_not_answer_is_followed_by_the_next(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "look_up", lambda *_: ["::1", "127.0.0.1"])
    assert _post(receiver.url(host="two.example")) == 204


def test_with_tls_only_a_receiver_that_proves_its_name_gets_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, tls = _certify(tmp_path, "hook.example")
    monkeypatch.setattr(addresses, "look_up", lambda *_: ["127.0.0.1"])
    with running_receiver(tls) as receiver:
        with pytest.raises(ssl.SSLCertVerificationError):
            _post(receiver.url(host="hook.example"))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        with pytest.raises(ssl.SSLCertVerificationError):
            _post(receiver.url(host="other.example"))
        with pytest.raises(ssl.SSLCertVerificationError):
            _post(receiver.url(host="127.0.0.1"))
        assert receiver.received == []
        assert _post(receiver.url(host="hook.example")) == 204
        assert receiver.received[0].headers["host"] == f"hook.example:{receiver.port}"


def _certify(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate that is its own authority, and a server's end of TLS with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(secret)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path, folder / "key.pem")
    return path, tls
