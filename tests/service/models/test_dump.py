"""A dump of the whole database contains no secret that was ever shown."""

import os
import subprocess
from uuid import uuid4

import pytest
import requests
from itsdangerous import URLSafeTimedSerializer
from sqlalchemy import select, text

from service.core.sealing import Sealer
from service.core.tokens import Kind, derive
from service.models import MagicLink, Passkey, ProviderConnection
from service.models.identity.sign_in import open_account
from service.operations.local.placement import find_binaries
from service.web.auth.browsers import BROWSER_COOKIE, SESSION_COOKIE
from service.web.auth.web_sessions import SECRET_FIELD
from tests.service.support.live import LiveService
from tests.service.support.oauth_flow import (
    AUTHORIZE,
    TOKEN,
    add_application,
    answer_of,
    consent_live,
    email_of,
)
from tests.service.support.scenes import SECRET_KEY, add_link
from tests.worker.support.promises import Note, always_in_full

PG_DUMP = find_binaries().postgres / "bin" / "pg_dump"


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_no_secret_is_in_a_dump(live: LiveService, note: Note) -> None:
    tenant = live.add_tenant()
    cookie = live.sign_in(email_of(live.sessions, tenant.account_id))
    application = add_application(live.sessions, tenant.account_id).with_fresh_verifier()
    address = requests.Request("GET", live.url + AUTHORIZE, params=application.asks()).prepare().url
    assert address is not None
    codes = [answer_of(consent_live(live.url, address, cookie))["code"] for _ in range(2)]
    redeemed = requests.post(live.url + TOKEN, data=application.redeems(codes[0]), timeout=60)
    secrets = [
        *(tenant.key, tenant.token, application.secret, *codes, redeemed.json()["access_token"]),
        *_sign_in(live),
        *_await_passkey(live),
    ]
    assert {one.partition("_")[0] + "_" for one in secrets} == set(Kind) - {Kind.CLIENT_ID}
    secrets.append(_connect(live, tenant.account_id))
    dump = _dump(live)
    assert application.client_id in dump, "this is a dump of that database"
    assert "sealed:1:" in dump, "the provider's key is in it, encrypted"
    lost = sum(_is_in(dump, secret.partition("_")[2]) for secret in secrets)
    note("27 secrets of every kind are absent from a database dump", len(secrets), lost)


def _is_in(dump: str, secret: str) -> bool:
    """Check all but the prefix that owners see, as text and as bytes."""
    random = secret[4:32]
    return random in dump or random.encode().hex() in dump


def _sign_in(live: LiveService) -> tuple[str, ...]:
    """A mailed link, used up, the session that it led to, and the browser's own secret."""
    email = f"{uuid4().hex}@example.org"
    asked = requests.post(f"{live.url}/auth/magic-link", json={"email": email}, timeout=60)
    with live.sessions() as session:
        [link_id] = session.scalars(select(MagicLink.id).where(MagicLink.email == email))
    link, _ = derive(Kind.MAGIC_LINK, SECRET_KEY, link_id)
    verified = requests.post(f"{live.url}/auth/verify", json={"token": link}, timeout=60)
    content = URLSafeTimedSerializer("").loads_unsafe(verified.cookies[SESSION_COOKIE])[1]
    return link, str(content[SECRET_FIELD]), asked.cookies[BROWSER_COOKIE]


def _await_passkey(live: LiveService) -> tuple[str]:
    """What the cookie holds while a sign-in waits for a passkey."""
    email = f"{uuid4().hex}@example.org"
    with live.sessions() as session:
        account = open_account(session, email)
        credential = {"credential_id": uuid4().bytes, "public_key": b"", "sign_count": 0}
        session.add(Passkey(account_id=account.id, name="x", **credential))
        session.commit()
    used = {"token": add_link(live.sessions, email)}
    waiting = requests.post(f"{live.url}/auth/verify", json=used, timeout=10)
    content = URLSafeTimedSerializer("").loads_unsafe(waiting.cookies[SESSION_COOKIE])[1]
    return (str(content["pending"]),)


def _connect(live: LiveService, account_id: str) -> str:
    """A provider's admin key, as a connection stores it."""
    key = f"sk_{uuid4().hex}{uuid4().hex}"
    live.engine.dialect.sealer = Sealer([SECRET_KEY])  # type: ignore[attr-defined]
    with live.sessions() as session:
        session.add(ProviderConnection(account_id=account_id, provider="openai", key=key))
        session.commit()
    return key


def _dump(live: LiveService) -> str:
    """What pg_dump writes; where the binaries lack it, every row of every table as text."""
    if PG_DUMP.exists():
        url = live.engine.url.set(drivername="postgresql")
        command = [str(PG_DUMP), "--inserts", url.render_as_string(hide_password=False)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        return ran.stdout
    with live.engine.connect() as connection:
        tables = connection.scalars(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).all()
        rows = [
            row
            for table in tables
            for row in connection.scalars(text(f'SELECT row::text FROM "{table}" AS row'))
        ]
    return "\n".join(rows)
