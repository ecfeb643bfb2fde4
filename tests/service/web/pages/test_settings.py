"""Browser names in the list of sessions, and whose sessions are listed."""

from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from service.models import Account, StoredData, WebSession
from service.models.base import utc_now
from service.web.auth.browsers import describe_browser
from tests.service.support.browser import Browser
from tests.service.support.scenes import sign_in
from tests.service.web.pages.words import words


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/2010 Firefox/140.0", "Firefox on Linux"),
        (f"{MAC} Chrome/140.0.0.0 Safari/537.36", "Chrome on macOS"),
        (f"{MAC} Version/18.0 Safari/605.1.15", "Safari on macOS"),
        (f"{MAC} Chrome/140.0.0.0 Safari/537.36 Edg/140.0", "Edge on macOS"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("curl/8.0", "curl/8.0"),
        ("", "Unknown browser"),
    ],
)  # fmt: skip
def test_a_browser_is_named_by_what_it_says(user_agent: str, name: str) -> None:
    assert describe_browser(user_agent) == name


def test_a_hostile_browser_name_is_inert(
    client: FlaskClient, sessions: "sessionmaker[Session]", db_session: Session
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    row = db_session.scalars(select(WebSession)).one()
    row.user_agent = "<script>alert(1)</script>"
    db_session.commit()
    page = client.get("/settings/sessions", headers=headers).get_data(as_text=True)
    assert "<script>" not in page
    assert "Unknown browser" in page


def test_sessions_that_are_over_are_not_listed(
    client: FlaskClient, sessions: "sessionmaker[Session]", db_session: Session
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    account = db_session.scalars(select(Account)).one()
    for days, seen_days in ((-1, 0), (10, 15)):
        over, _secret = WebSession.minted(account.id, days=days)
        over.last_seen_at = utc_now() - timedelta(days=seen_days)
        db_session.add(over)
    db_session.commit()
    page = client.get("/settings/sessions", headers=headers).get_data(as_text=True)
    assert page.count('/revoke"') == 1


def test_other_sessions_can_be_ended_where_there_are_others(
    client: FlaskClient, sessions: "sessionmaker[Session]"
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    button = b"Sign out all other sessions"
    assert button not in client.get("/settings/sessions", headers=headers).data
    sign_in(sessions, "ada@example.org")
    assert button in client.get("/settings/sessions", headers=headers).data


def test_the_owner_sees_what_is_stored_and_for_how_long(
    client: FlaskClient, sessions: "sessionmaker[Session]", db_session: Session
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    page = words(client.get("/settings", headers=headers))
    assert "your first figures appear within a day" in page
    assert "Reports and findings – Reports of batches 30 days" in page
    account = db_session.scalars(select(Account)).one()
    sizes = {"report_bytes": 1_500, "raw_bytes": 0, "call_bytes": 2_300_000, "spend_bytes": 999}
    db_session.add(StoredData(account_id=account.id, measured_at=utc_now(), **sizes))
    db_session.commit()
    page = words(client.get("/settings", headers=headers))
    assert "Raw records 0 bytes 7 days after the report" in page
    assert "Calls 2.3 MB 400 days after the day of the call" in page
    assert "Spend by day 999 bytes Until you delete your account" in page


def test_the_tag_attribute_of_traces_is_chosen_and_cleared(
    app: Flask, sessions: "sessionmaker[Session]", db_session: Session
) -> None:
    browser = Browser(app, sessions, "ada@example.org")
    for typed, kept in ((" team ", "team"), ("gen_ai.agent.name", "gen_ai.agent.name"), ("", None)):
        answer = browser.post("/settings", "/settings/tag-attribute", tag_attribute=typed)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?saved=")
        assert f'name="tag_attribute" value="{kept or ""}"' in browser.get("/settings?saved=")
        assert db_session.scalars(select(Account.tag_attribute)).one() == kept


@pytest.mark.parametrize(
    "name", ["gen_ai.input.messages", "input.value", "content", "x" * 101, "a\nb", "ü"]
)
def test_an_attribute_with_text_or_without_a_name_is_no_tag(
    app: Flask, sessions: "sessionmaker[Session]", db_session: Session, name: str
) -> None:
    browser = Browser(app, sessions, "ada@example.org")
    answer = browser.post("/settings", "/settings/tag-attribute", tag_attribute=name)
    assert answer.status_code == 422
    assert db_session.scalars(select(Account.tag_attribute)).one() is None
