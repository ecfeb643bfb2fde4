"""Row 26: without the token, paths under /admin look like routes that don't exist."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask

from tests.cases import each_case
from tests.service.support.live import LiveService
from tests.service.support.scenes import ADMIN_TOKEN as TOKEN
from tests.worker.support.promises import Note, at_both_scales, sampled
from tests.worker.support.waiting import wait_until

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"]
PATHS = [
    "/admin",
    "/admin/",
    "/admin?audits_page=x",
    "/admin/nothing",
    "/admin/openapi.json",
    "/admin/early-access.csv",
    "/admin/payments/mark-paid",
    "/admin/audits/x/purge",
    "/admin/audits/x/purge/",
    "/admin/audits/x/report",
    f"/admin/audits/{'x' * 300}/rerun",
    "/admin/audits/%00/rerun",
    "/%61dmin",
    "/admin//",
]
WRONG_TOKENS: list[bytes | None] = [
    None,
    b"",
    b" ",
    b"x" * len(TOKEN),
    TOKEN[:-1].encode(),
    TOKEN.encode() + b"x",
    TOKEN.upper().encode(),
    TOKEN.encode() + b",",
    "ÿ".encode("latin-1") * 10,
    "é€".encode(),
    b"\xff\xfe" + TOKEN.encode(),
]
BODIES: list[tuple[str, bytes]] = [
    ("application/json", b"{"),
    ("application/x-www-form-urlencoded", b"csrf_token=x&email=a%40example.com"),
    ("multipart/form-data", b"--nothing"),
    ("application/octet-stream", b"x" * (17 << 20)),
]

# A path and a token.
Case = tuple[str, bytes | None]


@dataclass(frozen=True)
class Answer:
    """All of an answer but its date; the request's id is the caller's own, so it is equal."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Asker:
    def __init__(self, service: LiveService) -> None:
        address = urlsplit(service.url)
        self._host, self._port = str(address.hostname), address.port

    def ask(
        self, method: str, path: str, token: bytes | None, body: tuple[str, bytes] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        connection.putrequest(method, path)
        connection.putheader("X-Request-Id", "5a" * 16)
        connection.putheader("Sec-Fetch-Site", "cross-site")
        if token is not None:
            connection.putheader("X-Admin-Token", token)
        if body is not None:
            connection.putheader("Content-Type", body[0])
            connection.putheader("Content-Length", str(len(body[1])))
        connection.endheaders()
        if body is not None:
            self._send(connection, body[1])
        response = connection.getresponse()
        headers = tuple(sorted(one for one in response.getheaders() if one[0] != "Date"))
        answer = Answer(response.status, headers, response.read())
        connection.close()
        return answer

    def _send(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        try:
            connection.send(body)
        except OSError:  # answered before it was sent to its end
            return


def _part(cases: list[Case], first: int, share: float) -> list[Case]:
    every = round(1 / share)
    return cases[first % every :: every]


@at_both_scales
def test_without_the_token_there_is_no_administration(
    administered: LiveService, note: Note, share: float
) -> None:
    """A tenth has each method, each path and each token with a tenth of the others."""
    asker, tries, losses = Asker(administered), 0, 0
    for method in METHODS:
        unknown = asker.ask(method, "/nothing/here", None)
        assert unknown.status == 404
        for path, token in _part(list(product(PATHS, WRONG_TOKENS)), METHODS.index(method), share):
            tries += 1
            losses += asker.ask(method, path, token) != unknown
    note("26 admin is invisible", tries, losses)


@pytest.mark.parametrize("body", BODIES, ids=[kind for kind, _ in BODIES])
@pytest.mark.parametrize("method", sampled(["POST", "PUT", "BREW"], 3))
def test_no_body_is_read(administered: LiveService, method: str, body: tuple[str, bytes]) -> None:
    asker = Asker(administered)
    unknown = asker.ask(method, "/nothing/here", None, body)
    assert unknown.status == 404
    for path in ("/admin", "/admin/payments/mark-paid", "/admin/audits/x/purge"):
        for token in (None, b"", "ÿ".encode("latin-1")):
            assert asker.ask(method, path, token, body) == unknown


def test_no_limit_reveals_it(administered: LiveService) -> None:
    asker = Asker(administered)
    answers = {asker.ask("POST", "/admin/payments/mark-paid", b"wrong") for _ in range(150)}
    assert answers == {asker.ask("POST", "/nothing/here", b"wrong")}


def test_the_token_opens_it(administered: LiveService) -> None:
    assert Asker(administered).ask("GET", "/admin", TOKEN.encode()).status == 200


@each_case("token", [None, b"", b" ", b"x", b"None"])
def test_where_no_token_is_set_none_opens_it(live: LiveService, token: bytes | None) -> None:
    asker = Asker(live)
    for method in ("GET", "POST"):
        assert asker.ask(method, "/admin", token) == asker.ask(method, "/nothing/here", None)


def test_the_log_contains_no_token_and_no_admin_route_without_the_token(
    administered: LiveService, tmp_path: Path
) -> None:
    before = len(administered.log_file.read_text())
    Asker(administered).ask("GET", "/admin", b"a-wrong-token-that-must-not-be-logged")
    # A request is logged after its response.
    wait_until(lambda: '"route": null' in administered.log_file.read_text()[before:], 5)
    log = administered.log_file.read_text()[before:]
    assert "must-not-be-logged" not in log
    assert "/admin" not in log


def test_wrong_tokens_are_logged_and_lock_their_network_out(
    share_app: Callable[..., Flask], caplog: pytest.LogCaptureFixture
) -> None:
    client = share_app(admin_token=TOKEN, admin_refusals_per_minute=5).test_client()

    def ask(token: str | None, address: str = "10.8.0.1") -> int:
        headers = {"X-Admin-Token": token} if token else {}
        where = {"REMOTE_ADDR": address}
        return client.get("/admin", headers=headers, environ_base=where).status_code

    assert ask(TOKEN) == 200
    assert [ask(None) for _ in range(10)] == [404] * 10  # nobody guesses without a token
    assert [ask(f"guess-{number}") for number in range(4)] == [404] * 4
    assert ask(TOKEN) == 200
    assert ask("guess-4") == 404
    assert ask(TOKEN) == 404
    assert ask(TOKEN, "10.8.0.2") == 200
    assert caplog.text.count("admin_token_refused") == 5
    assert "10.8.0.1" in caplog.text
    assert "guess" not in caplog.text
