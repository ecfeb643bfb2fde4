"""A signed-in session: what it can access, how long it lasts, and its rate limits."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from flask import Flask, jsonify
from flask import session as cookie
from flask.testing import FlaskClient
from sqlalchemy import Engine, create_engine, update
from sqlalchemy.orm import sessionmaker

from service.models import WebSession
from service.models.base import utc_now
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.callers import current_caller, limit_by_caller, require_login
from service.web.auth.web_sessions import SECRET_FIELD, remember
from tests.service.support.scenes import Sessions, error_of, sign_in, signed_cookie

WHO = "/api/v1/who-asks"
KEY = "/api/v1/what-limits-count-by"


@pytest.fixture
def client(make_app: Callable[..., Flask]) -> FlaskClient:
    """An application with two routes of its own: who is asking, and what limits count by."""
    app = make_app(session_days=30, session_idle_days=14)
    app.add_url_rule(WHO, view_func=require_login(lambda: jsonify(email=current_caller().email)))
    app.add_url_rule(KEY, "key", lambda: jsonify(key=limit_by_caller()))
    return app.test_client(use_cookies=False)


def test_a_session_opens_what_needs_one(client: FlaskClient, sessions: Sessions) -> None:
    headers = sign_in(sessions, "Ada@example.org")
    assert client.get(WHO, headers=headers).get_json() == {"email": "ada@example.org"}


def test_without_a_session_the_answer_is_unauthorized(client: FlaskClient) -> None:
    response = client.get(WHO)
    assert error_of(response, 401, "unauthorized") == "Sign in to continue."
    assert response.headers["WWW-Authenticate"].startswith("Session ")


@pytest.mark.parametrize("content", [{}, {SECRET_FIELD: 1}, {SECRET_FIELD: "ws_short"}])
def test_a_signed_cookie_without_a_row_is_worth_nothing(
    client: FlaskClient, content: dict[str, object]
) -> None:
    headers = {"Cookie": f"{SESSION_COOKIE}={signed_cookie(content)}"}
    error_of(client.get(WHO, headers=headers), 401, "unauthorized")


def test_a_cookie_that_others_signed_is_worth_nothing(
    client: FlaskClient, sessions: Sessions
) -> None:
    headers = sign_in(sessions, "ada@example.org", secret_key="another key, of 32 or more letters")
    error_of(client.get(WHO, headers=headers), 401, "unauthorized")


def test_a_cookie_signed_with_an_earlier_secret_key_is_still_known(
    make_app: Callable[..., Flask], sessions: Sessions
) -> None:
    earlier = "an-earlier-secret-key-of-32-or-more-letters"
    headers = sign_in(sessions, "ada@example.org", secret_key=earlier)
    app = make_app(secret_key_fallbacks=f"{earlier[::-1]} {earlier}")
    app.add_url_rule(WHO, view_func=require_login(lambda: jsonify(email=current_caller().email)))
    assert app.test_client(use_cookies=False).get(WHO, headers=headers).status_code == 200


def _remember_new() -> str:
    remember("ws_new")
    return "signed in"


def test_a_new_sessions_cookie_holds_nothing_of_the_one_before(
    make_app: Callable[..., Flask],
) -> None:
    app = make_app()
    app.add_url_rule(WHO, view_func=_remember_new)
    planted = {"Cookie": f"{SESSION_COOKIE}={signed_cookie({'csrf_token': 'known to another'})}"}
    with app.test_client(use_cookies=False) as client:
        client.get(WHO, headers=planted)
        assert dict(cookie) == {SECRET_FIELD: "ws_new", "_permanent": True}


def test_a_session_ends_after_thirty_days_however_often_it_is_used(
    client: FlaskClient, sessions: Sessions
) -> None:
    headers, began = sign_in(sessions, "ada@example.org"), utc_now()
    statuses = []
    for days in (0, 13, 26, 29.99, 30.01):
        with time_machine.travel(began + timedelta(days=days), tick=False):
            statuses.append(client.get(WHO, headers=headers).status_code)
    assert statuses == [200, 200, 200, 200, 401]


def test_a_session_that_has_expired_ends_even_if_its_cookie_is_new(
    client: FlaskClient, sessions: Sessions
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    with sessions() as session:
        session.execute(update(WebSession).values(expires_at=utc_now() - timedelta(seconds=1)))
        session.commit()
    assert client.get(WHO, headers=headers).status_code == 401


def test_a_session_ends_after_fourteen_idle_days(client: FlaskClient, sessions: Sessions) -> None:
    began = utc_now()
    used, unused = sign_in(sessions, "ada@example.org"), sign_in(sessions, "ada@example.org")
    with time_machine.travel(began + timedelta(days=13), tick=False):
        assert client.get(WHO, headers=used).status_code == 200
    with time_machine.travel(began + timedelta(days=14.01), tick=False):
        assert client.get(WHO, headers=used).status_code == 200
        assert client.get(WHO, headers=unused).status_code == 401


def test_a_different_email_header_is_rejected(client: FlaskClient, sessions: Sessions) -> None:
    headers = sign_in(sessions, "ada@example.org")
    for claimed in ("ada@example.org", " ADA@example.org "):
        assert client.get(WHO, headers={**headers, "x-user-email": claimed}).status_code == 200
    for claimed in ("eve@example.org", "", "\xe4da@example.org"):
        response = client.get(WHO, headers={**headers, "x-user-email": claimed})
        error_of(response, 401, "unauthorized")
    error_of(client.get(WHO, headers={"x-user-email": "ada@example.org"}), 401, "unauthorized")


def test_limits_count_by_person_and_else_by_address(
    client: FlaskClient, sessions: Sessions
) -> None:
    one, same = sign_in(sessions, "ada@example.org"), sign_in(sessions, "ada@example.org")
    other = sign_in(sessions, "eve@example.org")
    keys = [client.get(KEY, headers=who).get_json()["key"] for who in (one, same, other, {})]
    assert keys[0] == keys[1] != keys[2]
    assert keys[0].startswith("user:")
    assert keys[3] == "127.0.0.1"


def test_without_a_database_limits_count_by_address_and_nobody_is_signed_out(
    make_app: Callable[..., Flask], sessions: Sessions
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    app = make_app()
    counted: list[str] = []

    def view() -> str:
        counted.append(limit_by_caller())
        return require_login(lambda: "admitted")()

    app.add_url_rule(WHO, view_func=view)
    app.extensions["session_factory"] = sessionmaker(_nowhere())
    app.extensions["connect"] = _nowhere().connect
    response = app.test_client(use_cookies=False).get(WHO, headers=headers)
    error_of(response, 503, "unavailable")
    assert counted == ["127.0.0.1"]


def _nowhere() -> Engine:
    return create_engine("postgresql+psycopg2://nobody@/none?host=/nowhere")
