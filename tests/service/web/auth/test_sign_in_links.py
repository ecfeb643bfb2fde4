"""A sign-in link signs in the browser that requested it; others press a button that says who."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from service.core.tokens import Kind, derive
from service.models import MagicLink, WebSession
from tests.service.support.scenes import SECRET_KEY, Sessions, add_link, sign_in
from tests.worker.support.promises import Note, always_in_full

MAGIC_LINK, VERIFY = "/auth/magic-link", "/auth/verify"
EMAIL = "ada@example.org"
HTML = {"Accept": "text/html,*/*"}
# What reaches a link before its reader does: a mail scanner, a preview, and other sites' pages.
LOOKERS: tuple[dict[str, str], ...] = (
    {},
    {"User-Agent": "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Purpose": "prefetch;prerender"},
    {"X-Moz": "prefetch"},
)


def _ask(client: FlaskClient, db_session: Session, email: str = EMAIL, **body: str) -> str:
    """Request a link in this browser; returns what it ends with."""
    answer = client.post(MAGIC_LINK, json={"email": email, **body})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    newest = select(MagicLink.id).order_by(MagicLink.created_at.desc()).limit(1)
    return derive(Kind.MAGIC_LINK, SECRET_KEY, str(db_session.scalar(newest)))[0]


def _follow(client: FlaskClient, token: str, **headers: str) -> TestResponse:
    return client.get(VERIFY, query_string={"token": token}, headers={**HTML, **headers})


def _count_sessions(db_session: Session) -> int:
    return db_session.scalar(select(func.count()).select_from(WebSession)) or 0


def _is_unused(db_session: Session) -> bool:
    db_session.expire_all()
    return all(link.ended_at is None for link in db_session.scalars(select(MagicLink)))


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_nothing_but_the_browser_that_asked_or_a_press_of_the_button_uses_a_link(
    app: Flask, db_session: Session, note: Note
) -> None:
    own, token, lost = app.test_client(), "", 0
    token = _ask(own, db_session, next="/upload")
    for headers in LOOKERS:
        answer = _follow(app.test_client(), token, **headers)
        lost += answer.status_code != 200 or "Sign in as" not in answer.get_data(as_text=True)
        lost += not _is_unused(db_session) or _count_sessions(db_session) > 0
    for headers in LOOKERS[4:]:  # with the cookie, which a browser sends to images of its own site
        _follow(own, token, **headers)
        lost += not _is_unused(db_session) or _count_sessions(db_session) > 0
    own.head(VERIFY, query_string={"token": token})
    lost += not _is_unused(db_session)
    answer = _follow(own, token, **LOOKERS[3])  # a click in webmail
    lost += answer.status_code != 200 or "url=/upload" not in answer.get_data(as_text=True)
    lost += _count_sessions(db_session) != 1
    note("39 a sign-in link is used by its own browser alone", 2 * len(LOOKERS), lost)


def test_the_button_names_the_address_and_signs_in(app: Flask, db_session: Session) -> None:
    token = _ask(app.test_client(), db_session)
    phone = app.test_client()
    page = _follow(phone, token).get_data(as_text=True)
    assert "<h1>Sign in as <bdi>a…@example.org</bdi></h1>" in page
    assert EMAIL not in page
    [csrf] = re.findall(r'name="csrf_token" value="([^"]+)"', page)[:1]
    answer = phone.post(VERIFY, data={"token": token, "csrf_token": csrf}, headers=HTML)
    assert answer.status_code == 200
    assert f"<summary>{EMAIL}</summary>" in answer.get_data(as_text=True)
    assert phone.get("/settings").status_code == 200
    assert phone.post(VERIFY, json={"token": token}).status_code == 422


def test_only_the_browser_that_asked_is_led_to_the_destination_that_was_asked_for(
    app: Flask, db_session: Session
) -> None:
    token = _ask(app.test_client(), db_session, next="/settings/delete")
    answer = app.test_client().post(VERIFY, json={"token": token})
    assert "url=/dashboard" in answer.get_data(as_text=True)
    assert "/settings/delete" not in answer.get_data(as_text=True)


def test_an_attackers_link_signs_nobody_in_as_the_attacker(
    app: Flask, db_session: Session, sessions: Sessions
) -> None:
    """The victim has a browser cookie of their own and is signed in; the link comes from afar."""
    victim = app.test_client()
    own = _ask(victim, db_session)
    assert "You're signed in" in _follow(victim, own).get_data(as_text=True)
    token = _ask(app.test_client(), db_session, "eve@example.org", next="/upload")
    page = _follow(victim, token, **LOOKERS[3]).get_data(as_text=True)
    assert f"You're signed in as <strong><bdi>{EMAIL}</bdi></strong>" in page
    assert EMAIL in victim.get("/settings").get_data(as_text=True)
    forged = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = victim.post(VERIFY, data={"token": token}, headers=forged)
    assert answer.status_code == 403
    assert EMAIL in victim.get("/settings").get_data(as_text=True)


def test_nobody_is_signed_in_by_another_sites_form(app: Flask, db_session: Session) -> None:
    token = _ask(app.test_client(), db_session, "eve@example.org")
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ):
        visitor = app.test_client()
        answer = visitor.post(VERIFY, data={"token": token}, headers=headers)
        assert answer.status_code == 403
        assert visitor.get("/settings").status_code == 303


def test_a_link_of_the_terminal_signs_in_with_the_button(app: Flask, sessions: Sessions) -> None:
    token, browser = add_link(sessions, EMAIL), app.test_client()
    assert "Sign in as" in _follow(browser, token).get_data(as_text=True)
    assert browser.get("/settings").status_code == 303
    assert browser.post(VERIFY, json={"token": token}).status_code == 200
    assert EMAIL in browser.get("/settings").get_data(as_text=True)


def test_a_second_link_of_a_browser_leaves_its_first_one_its_own(
    client: FlaskClient, db_session: Session
) -> None:
    first = _ask(client, db_session)
    _ask(client, db_session)
    assert "You're signed in" in _follow(client, first).get_data(as_text=True)


@pytest.mark.parametrize("body", [{}, {"token": None}, {"token": 1}, {"token": "ml_x"}, [], "x"])
def test_a_body_without_a_link_signs_nobody_in(client: FlaskClient, body: object) -> None:
    assert client.post(VERIFY, json=body).status_code == 422


def test_the_cookie_of_a_browser_is_kept_from_scripts_and_other_hosts(
    share_app: Callable[..., Flask], db_session: Session
) -> None:
    client = share_app(base_url="https://audit.example").test_client()
    answer = client.post(MAGIC_LINK, json={"email": EMAIL})
    [cookie] = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-tallystick_browser=br_")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie


def test_signing_in_again_ends_the_browsers_session_of_before(
    app: Flask, sessions: Sessions, db_session: Session
) -> None:
    client = app.test_client()
    name, _, value = sign_in(sessions, EMAIL)["Cookie"].partition("=")
    client.set_cookie(name, value)
    _follow(client, _ask(client, db_session))
    assert _count_sessions(db_session) == 1
