"""A complete OAuth flow, step by step, so that tests can stop at any step."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.core import tokens
from service.models import Account, OAuthApplication, OAuthCode, OAuthToken
from service.models.base import utc_now
from service.web.auth.scopes import SCOPES
from tests.service.support.scenes import Sessions, sign_in

AUTHORIZE, TOKEN, REVOKE = "/oauth/authorize", "/oauth/token", "/oauth/revoke"
BACK = "https://app.example.org/back?from=tallystick%20x"
LOOPBACK = "http://127.0.0.1:8765/back"
_TOKEN_FIELD = re.compile(r'name="csrf_token" value="([^"]+)"')


@dataclass(frozen=True)
class Application:
    """A registered application, and what it would ask with."""

    id: str
    client_id: str
    secret: str
    verifier: str = "v" * 64
    redirect_uri: str = BACK

    @property
    def challenge(self) -> str:
        return challenge_of(self.verifier)

    def asks(self, **changed: Any) -> dict[str, Any]:
        """The parameters of an authorization request; None removes a parameter."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(SCOPES),
            "state": "as it was/?&=ü",
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            **changed,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def redeems(self, code: str, /, **changed: Any) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self.client_id,
            "client_secret": self.secret,
            "code_verifier": self.verifier,
            **changed,
        }
        return {name: value for name, value in form.items() if value is not None}

    def with_fresh_verifier(self) -> "Application":
        return replace(self, verifier=secrets.token_urlsafe(48))


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def add_application(
    sessions: Sessions, account_id: str, *redirect_uris: str, name: str = "Spend Watcher"
) -> Application:
    with sessions() as session:
        row, secret = OAuthApplication.minted(
            account_id, name=name, redirect_uris=redirect_uris or (BACK, LOOPBACK)
        )
        session.add(row)
        session.commit()
        return Application(row.id, row.client_id, secret, redirect_uri=row.redirect_uris[0])


def email_of(sessions: Sessions, account_id: str) -> str:
    with sessions() as session:
        return session.get_one(Account, account_id).email


def browser_of(sessions: Sessions, client: FlaskClient, account_id: str) -> None:
    """Let the test client be a browser that is signed in as this account."""
    name, _, value = sign_in(sessions, email_of(sessions, account_id))["Cookie"].partition("=")
    client.set_cookie(name, value, secure=True)


def answer_of(location: str) -> dict[str, str]:
    """The parameters that a redirect brings to the application."""
    return {name: one[0] for name, one in parse_qs(urlsplit(location).query).items()}


def consent(
    client: FlaskClient,
    application: Application,
    *,
    decision: str = "allow",
    scopes: tuple[str, ...] = SCOPES,
    sent_to: dict[str, Any] | None = None,
    **changed: Any,
) -> TestResponse:
    """Load the consent screen and send its form; `sent_to` is another question than was shown."""
    asked = application.asks(**changed)
    page = client.get(AUTHORIZE, query_string=asked, base_url="https://localhost")
    found = _TOKEN_FIELD.search(page.get_data(as_text=True))
    assert found is not None, page.get_data(as_text=True)
    form = {"csrf_token": found[1], "decision": decision, "scope": list(scopes)}
    headers = {"Referer": "https://localhost/oauth/authorize"}
    asked = asked if sent_to is None else sent_to
    return client.post(
        AUTHORIZE, query_string=asked, data=form, headers=headers, base_url="https://localhost"
    )


def get_code(client: FlaskClient, application: Application, **changed: Any) -> str:
    response = consent(client, application, **changed)
    assert response.status_code == 303, response.get_data(as_text=True)
    return answer_of(response.headers["Location"])["code"]


def get_token(client: FlaskClient, application: Application, **changed: Any) -> str:
    code = get_code(client, application, **changed)
    response = client.post(TOKEN, data=application.redeems(code))
    assert response.status_code == 200, response.get_data(as_text=True)
    return str(response.get_json()["access_token"])


def consent_live(
    url: str, address: str, cookie: dict[str, str], scopes: tuple[str, ...] = SCOPES
) -> str:
    """What a browser does with an authorization address: returns where it is sent back to."""
    browser = requests.Session()
    browser.headers.update(cookie)
    page = browser.get(address, timeout=60)
    found = _TOKEN_FIELD.search(page.text)
    assert found is not None, page.text
    # The secure cookie with the form's token goes back by hand: this is no TLS.
    kept = "; ".join(f"{one.name}={one.value}" for one in page.cookies)
    headers = {"Cookie": kept or cookie["Cookie"]}
    form = {"csrf_token": found[1], "decision": "allow", "scope": list(scopes)}
    sent = requests.post(address, data=form, headers=headers, allow_redirects=False, timeout=60)
    assert sent.status_code == 303, sent.text
    return sent.headers["Location"]


def add_code(
    sessions: Sessions, application: Application, account_id: str, scopes: tuple[str, ...] = SCOPES
) -> str:
    """A code that the account has allowed the application, without the screens."""
    code, secret_hash = tokens.mint_hashed(tokens.Kind.AUTHORIZATION_CODE)
    with sessions() as session:
        session.add(
            OAuthCode(
                application_id=application.id,
                account_id=account_id,
                secret_hash=secret_hash,
                scopes=list(scopes),
                redirect_uri=application.redirect_uri,
                code_challenge=application.challenge,
            )
        )
        session.commit()
    return code


def add_token(
    sessions: Sessions, application: Application, account_id: str, scopes: tuple[str, ...] = SCOPES
) -> str:
    """An access token that the account allowed the application, without the way there."""
    _, code_hash = tokens.mint_hashed(tokens.Kind.AUTHORIZATION_CODE)
    token, token_hash = tokens.mint_hashed(tokens.Kind.ACCESS_TOKEN)
    owners = {"application_id": application.id, "account_id": account_id, "scopes": list(scopes)}
    with sessions() as session:
        code = OAuthCode(
            secret_hash=code_hash,
            redirect_uri=application.redirect_uri,
            code_challenge=application.challenge,
            used_at=utc_now(),
            **owners,
        )
        session.add(code)
        session.flush()
        session.add(OAuthToken(code_id=code.id, secret_hash=token_hash, **owners))
        session.commit()
    return token
