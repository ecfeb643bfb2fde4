"""Shared by the tests of the service: tenants, records, and how to read a response."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from flask import Flask
from itsdangerous import URLSafeTimedSerializer
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from service.core.tokens import Kind, derive
from service.models import Account, IngestKey, ReadToken, Subscription, WebSession
from service.models.base import utc_now
from service.models.identity.accounts import find_account
from service.models.identity.sign_in import add_magic_link
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.scopes import SCOPES
from service.web.auth.web_sessions import SECRET_FIELD, SessionCookies

INGEST = "/api/v1/ingest"
INGEST_V2 = "/api/v2/ingest"
AUDITS = "/api/v1/audits"
ADMIN_TOKEN = "an-administrators-token-of-44-characters-yes"
Sessions = sessionmaker[Session]
SECRET_KEY = "a secret key for tests, 32 or longer"  # of every application in tests/service


@dataclass(frozen=True)
class Tenant:
    """An account with one ingest key and one read token for everything."""

    account_id: str
    key: str
    token: str

    @property
    def writes(self) -> dict[str, str]:
        return bearer(self.key)

    @property
    def reads(self) -> dict[str, str]:
        return bearer(self.token)


def add_account(session: Session, **fields: Any) -> Account:
    """An account with an address of its own, if none is given."""
    account = Account(**{"email": f"{uuid4().hex}@example.org", **fields})
    session.add(account)
    session.flush()
    return account


def sign_in(
    sessions: Sessions, email: str, secret_key: str = SECRET_KEY, *, hours_ago: float = 0
) -> dict[str, str]:
    """The headers of a browser that is signed in with this address; a new one has an account.

    For real HTTP, and for a test client made with `use_cookies=False`: others send their own.
    """
    with sessions() as session:
        account = find_account(session, email) or add_account(session, email=email.lower())
        row, secret = WebSession.minted(account.id, days=30)
        row.created_at = utc_now() - timedelta(hours=hours_ago)
        session.add(row)
        session.commit()
    return {"Cookie": f"{SESSION_COOKIE}={signed_cookie({SECRET_FIELD: secret}, secret_key)}"}


@dataclass(frozen=True)
class Caller:
    """Headers of one credential; a browser also has the token of its forms."""

    headers: dict[str, str]
    csrf_token: str = ""


def add_browser(sessions: Sessions, account_id: str) -> Caller:
    """A signed-in browser that has loaded a page with a form."""
    with sessions() as session:
        row, secret = WebSession.minted(account_id, days=30)
        session.add(row)
        session.commit()
    raw = hashlib.sha1(secret.encode(), usedforsecurity=False).hexdigest()
    cookie = signed_cookie({SECRET_FIELD: secret, "csrf_token": raw})
    with_sha256 = {"digest_method": hashlib.sha256}
    forms = URLSafeTimedSerializer(SECRET_KEY, salt="wtf-csrf-token", signer_kwargs=with_sha256)
    return Caller({"Cookie": f"{SESSION_COOKIE}={cookie}"}, str(forms.dumps(raw)))


def add_link(sessions: Sessions, email: str) -> str:
    """What a mailed sign-in link ends with."""
    with sessions() as session:
        link = add_magic_link(session, email, SECRET_KEY, minutes=15, next_path=None)
        session.commit()
        return derive(Kind.MAGIC_LINK, SECRET_KEY, link.id)[0]


def signed_cookie(content: dict[str, object], secret_key: str = SECRET_KEY) -> str:
    """The value of a session cookie as the service itself would sign it."""
    signing = Flask("signing")
    signing.secret_key = secret_key
    serializer = SessionCookies().get_signing_serializer(signing)
    assert serializer is not None
    return str(serializer.dumps({"_permanent": True, **content}))


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def add_tenant(
    sessions: Sessions, *, status: str | None = "active", scopes: tuple[str, ...] = SCOPES
) -> Tenant:
    with sessions() as session:
        account = Account(email=f"{uuid4().hex}@example.org")
        if status is not None:
            account.subscriptions = [Subscription(plan="pro", status=status, provider="comp")]
        session.add(account)
        session.flush()
        ingest_key, key = IngestKey.minted(account.id)
        read_token, token = ReadToken.minted(account.id, scopes=scopes)
        session.add_all([ingest_key, read_token])
        session.commit()
        return Tenant(account.id, key, token)


def record(**fields: Any) -> dict[str, Any]:
    """A valid usage record, with these fields instead or as well."""
    return {
        "ts": "2026-03-01T12:00:00Z",
        "provider": "openai",
        "model": "gpt-4o-mini",
        "prompt_tokens": 100,
        "completion_tokens": 10,
        **fields,
    }


def batch(count: int = 1, **fields: Any) -> dict[str, Any]:
    return {"records": [record(**fields) for _ in range(count)]}


def error_of(response: TestResponse, status: int, code: str) -> str:
    """Check that the answer is this error's envelope and nothing more; returns its message."""
    assert response.status_code == status, response.get_data(as_text=True)
    document = response.get_json()
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message", "request_id"}
    assert document["error"]["code"] == code
    assert document["error"]["request_id"] == response.headers["X-Request-Id"]
    message = document["error"]["message"]
    assert isinstance(message, str)
    assert message
    return message
