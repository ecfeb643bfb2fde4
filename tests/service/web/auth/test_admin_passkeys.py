"""With ADMIN_ACCOUNTS, a browser needs an administrator's passkey for /admin; programs don't."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from service.models import AdminAction, SecurityEvent, WebSession
from service.models.base import utc_now
from tests.service.support.authenticator import Authenticator
from tests.service.support.browser import Browser
from tests.service.support.scenes import ADMIN_TOKEN, add_link
from tests.service.web.auth.test_passkeys import Visitor, add_passkey

Sessions = sessionmaker[Session]

TOKEN = {"X-Admin-Token": ADMIN_TOKEN}
NAVIGATION = {**TOKEN, "Accept": "text/html", "Sec-Fetch-Site": "none"}
ADA, EVE = "ada@example.org", "eve@example.org"
STEP = "/sign-in/passkey"


@pytest.fixture
def app(share_app: Callable[..., Flask]) -> Flask:
    return share_app(admin_token=ADMIN_TOKEN, admin_accounts=f"{ADA}, root@example.org")


def signed_in_with_passkey(app: Flask, sessions: Sessions, email: str) -> Any:
    key = Authenticator()
    assert add_passkey(Browser(app, sessions, email), key).status_code == 200
    client = app.test_client()
    client.post("/auth/verify", json={"token": add_link(sessions, email)})
    visitor = Visitor(client, client.get(STEP).get_data(as_text=True))
    assert visitor.send(credential=key.get(visitor.options)).status_code == 303
    return client


def test_programs_need_the_token_alone(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/admin", headers=TOKEN).status_code == 200
    assert client.get("/admin", headers={**TOKEN, "Accept": "application/json"}).is_json


def test_a_browser_with_the_token_alone_is_asked_to_sign_in(app: Flask) -> None:
    answer = app.test_client().get("/admin", headers=NAVIGATION)
    assert answer.status_code == 403
    assert "/sign-in?next=/admin" in answer.get_data(as_text=True)


@pytest.mark.parametrize("header", ["Sec-Fetch-Site", "Sec-Fetch-Mode", "Origin"])
def test_whatever_a_browser_accepts_it_is_a_browser(app: Flask, header: str) -> None:
    headers = {**TOKEN, "Accept": "application/json", header: "cors"}
    assert app.test_client().get("/admin", headers=headers).status_code == 403


def test_without_the_token_nothing_of_it_shows(app: Flask, sessions: Sessions) -> None:
    client = signed_in_with_passkey(app, sessions, ADA)
    assert client.get("/admin", headers={"Accept": "text/html"}).status_code == 404


def test_an_administrator_with_a_passkey_is_let_in(app: Flask, sessions: Sessions) -> None:
    client = signed_in_with_passkey(app, sessions, ADA)
    assert client.get("/admin", headers=NAVIGATION).status_code == 200
    with sessions() as session:
        early = utc_now() - timedelta(hours=13)
        session.execute(update(WebSession).values(created_at=early))
        session.commit()
    assert client.get("/admin", headers=NAVIGATION).status_code == 403


def test_a_session_without_a_passkey_is_not_enough(app: Flask, sessions: Sessions) -> None:
    ada = Browser(app, sessions, ADA)
    assert ada.client.get("/admin", headers=NAVIGATION).status_code == 403
    assert ada.client.post("/admin/audits/x/purge", headers=NAVIGATION).status_code == 403


def test_a_passkey_of_another_account_is_not_enough(app: Flask, sessions: Sessions) -> None:
    client = signed_in_with_passkey(app, sessions, EVE)
    assert client.get("/admin", headers=NAVIGATION).status_code == 403


def test_an_administrator_signs_an_account_out(app: Flask, sessions: Sessions) -> None:
    eve, client = Browser(app, sessions, EVE), signed_in_with_passkey(app, sessions, ADA)
    action = f"/admin/accounts/{eve.account_id}/sign-out"
    page = client.get("/admin", headers=NAVIGATION).get_data(as_text=True)
    assert f'action="{action}"' in page
    token = page.split('name="csrf_token" value="')[1].split('"')[0]
    assert client.post(action, headers=NAVIGATION, data={"csrf_token": "x"}).status_code == 403
    done = client.post(action, headers=NAVIGATION, data={"csrf_token": token})
    assert done.status_code == 200
    assert eve.client.get("/dashboard").status_code == 303
    assert client.get("/dashboard").status_code == 200
    with sessions() as session:
        logged = session.scalars(select(AdminAction).where(AdminAction.act == "sign-out")).one()
        assert (logged.target, logged.via) == (EVE, "web")
        assert logged.details == {"sessions": 1, "by": ADA}
        kinds = session.scalars(
            select(SecurityEvent.kind).where(SecurityEvent.account_id == eve.account_id)
        ).all()
        assert "admin_signed_out" in kinds


def test_programs_sign_accounts_out_too(app: Flask, sessions: Sessions) -> None:
    eve = Browser(app, sessions, EVE)
    action = f"/admin/accounts/{eve.account_id}/sign-out"
    answer = app.test_client().post(action, headers=TOKEN)
    assert answer.get_json() == {"account_id": eve.account_id, "sessions": 1}
    assert app.test_client().post("/admin/accounts/x/sign-out", headers=TOKEN).status_code == 404
