"""Who may open /admin in a browser: administrators who have signed in lately, with a passkey.

With ADMIN_ACCOUNTS, the token alone is not enough in a browser; programs need nothing else.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update

from service.models import AdminAction, SecurityEvent, WebSession
from service.models.base import utc_now
from tests.service.support.authenticator import Authenticator
from tests.service.support.browser import Browser
from tests.service.support.scenes import ADMIN_TOKEN, Sessions, add_link
from tests.service.web.auth.test_passkeys import Visitor, add_passkey

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


def test_the_token_alone_is_enough_for_programs_and_not_in_a_browser(app: Flask) -> None:
    client = app.test_client()
    program = {**TOKEN, "Accept": "application/json"}
    assert client.get("/admin", headers=TOKEN).status_code == 200
    assert client.get("/admin", headers=program).is_json
    answer = client.get("/admin", headers=NAVIGATION)
    assert answer.status_code == 403
    assert "/sign-in?next=/admin" in answer.get_data(as_text=True)
    for header in ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Origin"):
        assert client.get("/admin", headers={**program, header: "cors"}).status_code == 403, header


def test_administrators_need_no_token_for_some_minutes(app: Flask, sessions: Sessions) -> None:
    client = signed_in_with_passkey(app, sessions, ADA)
    assert client.get("/admin").status_code == 200
    assert ">Admin</a>" in client.get("/dashboard").get_data(as_text=True)
    with sessions() as session:
        session.execute(update(WebSession).values(created_at=utc_now() - timedelta(minutes=16)))
        session.commit()
    assert client.get("/admin").status_code == 404


def test_for_everybody_else_admin_does_not_exist(app: Flask, sessions: Sessions) -> None:
    """Also for an administrator's account that was opened without its passkey."""
    nothing = app.test_client().get("/nothing", headers={"Accept": "application/json"}).get_json()
    clients = {
        "nobody": app.test_client(),
        "somebody": signed_in_with_passkey(app, sessions, EVE),
        "without a passkey": Browser(app, sessions, ADA).client,
    }
    for name, client in clients.items():
        answer = client.get("/admin", headers={"Accept": "application/json"})
        assert answer.status_code == 404, name
        assert answer.get_json()["error"]["message"] == nothing["error"]["message"]
        assert client.post("/admin/payments/mark-paid", json={}).status_code == 404, name
        if name != "without a passkey":
            assert ">Admin</a>" not in client.get("/sample").get_data(as_text=True)


def test_the_owner_needs_a_passkey_only_if_the_account_has_one(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    app = share_app(owner_email=ADA)
    owner = Browser(app, sessions, ADA)
    assert owner.client.get("/admin").status_code == 200
    assert Browser(app, sessions, EVE).client.get("/admin").status_code == 404
    answer = owner.act("/admin", f"/admin/accounts/{owner.account_id}/sign-out")
    assert answer.status_code == 200
    owner = Browser(app, sessions, ADA)
    assert add_passkey(owner, Authenticator()).status_code == 200
    assert owner.client.get("/admin").status_code == 404
    with sessions() as session:
        actions = session.scalars(select(AdminAction)).all()
        assert ADA in [each.details.get("by") for each in actions]


def test_another_site_cannot_act_for_an_administrator(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    owner = Browser(share_app(owner_email=ADA), sessions, ADA)
    path, foreign = f"/admin/accounts/{owner.account_id}/sign-out", {"Sec-Fetch-Site": "cross-site"}
    assert owner.client.post(path, headers=foreign, json={}).status_code == 403
    assert owner.client.post(path, data={"csrf_token": "wrong"}).status_code == 403
    # A body of another type, or none, is no way around the token.
    assert owner.client.post(path, json={}).status_code == 403
    assert owner.client.post(path).status_code == 403


def test_an_administrator_with_a_passkey_is_let_in(app: Flask, sessions: Sessions) -> None:
    client = signed_in_with_passkey(app, sessions, ADA)
    assert client.get("/admin", headers=NAVIGATION).status_code == 200
    with sessions() as session:
        early = utc_now() - timedelta(hours=13)
        session.execute(update(WebSession).values(created_at=early))
        session.commit()
    assert client.get("/admin", headers=NAVIGATION).status_code == 403
    # A session without a passkey is not enough.
    ada = Browser(app, sessions, ADA)
    assert ada.client.get("/admin", headers=NAVIGATION).status_code == 403
    assert ada.client.post("/admin/audits/x/purge", headers=NAVIGATION).status_code == 403
    # A passkey of another account is not enough.
    eve = signed_in_with_passkey(app, sessions, EVE)
    assert eve.get("/admin", headers=NAVIGATION).status_code == 403


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
