"""The OAuth flow with common client libraries, and a user who decides in Chromium."""

import secrets
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from playwright.sync_api import Browser, expect

from tests.browser.chromium import opened
from tests.browser.site import NEW, Site
from tests.service.support.oauth_flow import BACK, Application, add_application, answer_of
from tests.service.support.scenes import AUDITS, add_tenant

SCOPE = "read:audits read:findings"
AUTHORIZE, TOKEN, REVOKE = "/oauth/authorize", "/oauth/token", "/oauth/revoke"


class _Listener(BaseHTTPRequestHandler):
    """An application on this machine that waits for the answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Back</title><link rel=icon href=data:,>")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def redirect_uri() -> Iterator[str]:
    """Where an application listens, on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/back"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries want TLS, which a test on the loopback has not."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


def _register(site: Site, *redirect_uris: str) -> Application:
    """Somebody's application; nobody of this test's."""
    owner = add_tenant(site.sessions).account_id
    return add_application(site.sessions, owner, *redirect_uris)


class Authlib:
    """Authlib's own client, as in its documentation."""

    def __init__(self, url: str, application: Application) -> None:
        self.url, self.verifier = url, secrets.token_urlsafe(48)
        self.session = AuthlibSession(
            application.client_id,
            application.secret,
            scope=SCOPE,
            redirect_uri=application.redirect_uri,
            code_challenge_method="S256",
            revocation_endpoint_auth_method="client_secret_basic",
        )

    def ask(self) -> str:
        address, self.state = self.session.create_authorization_url(
            f"{self.url}{AUTHORIZE}", code_verifier=self.verifier
        )
        return str(address)

    def take(self, back: str) -> dict[str, Any]:
        parameters = {"authorization_response": back, "state": self.state}
        token = self.session.fetch_token(
            f"{self.url}{TOKEN}", code_verifier=self.verifier, **parameters
        )
        return dict(token)

    def read(self) -> requests.Response:
        answer: requests.Response = self.session.get(f"{self.url}{AUDITS}")
        return answer


@pytest.mark.parametrize(
    ("redirect_uri", "decision"),
    [
        (BACK, "Authorize"),
        ("http://[::1]:9/back", "Cancel"),
        pytest.param("http://localhost:9/back", "Cancel", marks=pytest.mark.stress),
        pytest.param("http://[::1]:9/back", "Authorize", marks=pytest.mark.stress),
        pytest.param("https://[::1]:9/b?", "Cancel", marks=pytest.mark.stress),
        pytest.param(BACK, "Cancel", marks=pytest.mark.stress),
        pytest.param("http://localhost:9/back", "Authorize", marks=pytest.mark.stress),
        pytest.param("https://[::1]:9/b?", "Authorize", marks=pytest.mark.stress),
    ],
)
def test_the_browser_follows_the_answer_to_every_kind_of_address(
    browser: Browser, site: Site, redirect_uri: str, decision: str
) -> None:
    """A Content-Security-Policy that is too narrow would stop it; nobody listens there."""
    application = _register(site, redirect_uri)
    client = Authlib(site.system.base_url, application)
    with opened(browser, site.system.base_url, site.cookie(NEW)) as window:
        window.page.goto(client.ask())
        with window.page.expect_request(lambda one: one.url.startswith(redirect_uri)) as sent:
            window.page.get_by_role("button", name=decision).click()
        assert answer_of(sent.value.url)["state"] == client.state


def test_an_address_that_is_not_registered_is_never_gone_to(
    browser: Browser, site: Site, redirect_uri: str
) -> None:
    application = _register(site, "http://127.0.0.1:1/back")
    asked = application.asks(redirect_uri=redirect_uri)
    address = requests.Request("GET", f"{site.system.base_url}{AUTHORIZE}", params=asked).prepare()
    assert address.url is not None
    with opened(browser, site.system.base_url, site.cookie(NEW)) as window:
        answer = window.page.goto(address.url)
        assert answer is not None
        assert answer.status == requests.codes.bad_request
        expect(window.page.get_by_text("isn't registered for the application")).to_be_visible()
        expect(window.page.get_by_role("button", name="Authorize")).to_have_count(0)
        assert window.foreign_requests == []
