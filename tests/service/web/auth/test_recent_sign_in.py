"""A session that signed in a while ago makes no secret, grants nothing and deletes nothing."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.core.tokens import Kind, derive
from service.models import (
    Account,
    IngestKey,
    MagicLink,
    Mail,
    OAuthApplication,
    OAuthCode,
    ReadToken,
    Subscription,
    WebSession,
)
from service.models.base import utc_now
from tests.service.support.browser import Browser, words_of
from tests.service.support.oauth_flow import AUTHORIZE, add_application
from tests.service.support.scenes import SECRET_KEY, Sessions, add_tenant
from tests.worker.support.promises import Note, always_in_full

TABLES = (IngestKey, ReadToken, OAuthApplication, OAuthCode, Account)
APPLICATION = {"name": "Books", "redirect_uris": "https://books.example/a\nhttps://books.example/b"}
# The page with the form, the form's address, what is sent, and what is kept of it.
FORMS = (
    ("/developer", "/developer/ingest-keys", {"label": "Kasse 7"}, "Kasse 7"),
    ("/developer", "/developer/read-tokens", {"label": "sheet", "scope": "read:audits"}, "sheet"),
    ("/developer/applications", "/developer/applications", APPLICATION, "https://books.example/b"),
)


@pytest.fixture
def ada(app: Flask, sessions: Sessions) -> Browser:
    browser = Browser(app, sessions, "ada@example.org")
    with sessions() as session:
        owner = {"account_id": browser.account_id}
        session.add(Subscription(**owner, plan="pro", status="active", provider="comp"))
        session.commit()
    return browser


def _age(db_session: Session, minutes: float) -> None:
    aged = update(WebSession).values(created_at=utc_now() - timedelta(minutes=minutes))
    db_session.execute(aged)
    db_session.commit()


def _count(db_session: Session) -> list[int]:
    return [db_session.scalar(select(func.count()).select_from(table)) or 0 for table in TABLES]


def _confirm(browser: Browser, db_session: Session, page: str) -> str:
    """Press the button, follow the mailed link in this browser; return where it leads."""
    text = browser.get(page)
    assert "Confirm it's you" in text
    answer = browser.post(
        page,
        "/auth/magic-link",
        email=browser.email,
        next=parse_qs(urlsplit(page).query)["next"][0],
    )
    assert answer.status_code == 200
    newest = select(MagicLink.id).order_by(MagicLink.created_at.desc()).limit(1)
    token, _ = derive(Kind.MAGIC_LINK, SECRET_KEY, str(db_session.scalar(newest)))
    signed_in = browser.get(f"/auth/verify?token={token}")
    return signed_in.partition('content="0; url=')[2].partition('"')[0].replace("&amp;", "&")


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_a_stolen_session_makes_nothing_that_outlasts_it(
    ada: Browser, sessions: Sessions, db_session: Session, note: Note
) -> None:
    application = add_application(sessions, add_tenant(sessions).account_id)
    own = add_application(sessions, ada.account_id)
    with sessions() as session:
        key, _ = IngestKey.minted(ada.account_id)
        session.add(key)
        session.commit()
    here = f"/developer/applications/{own.id}"
    forms = [*((page, action, fields) for page, action, fields, _ in FORMS)]
    forms += [
        ("/developer", f"/developer/ingest-keys/{key.id}/rotate", {"overlap_hours": "0"}),
        (here, here, APPLICATION),
        (here, f"{here}/rotate-secret", {}),
    ]
    before, lost = _count(db_session), 0
    _age(db_session, 15.1)
    for page, action, fields in forms:
        answer = ada.post(page, action, **fields)
        lost += answer.status_code != 303
        lost += not answer.headers.get("Location", "").startswith("/sign-in/confirm?next=")
    deleted = ada.act("/settings", "/settings/delete")
    asked = ada.client.get(AUTHORIZE, query_string=application.asks())
    for answer in (deleted, asked, ada.client.get("/settings/delete")):
        lost += not answer.headers.get("Location", "").startswith("/sign-in/confirm?next=")
    lost += _count(db_session) != before
    note("an old session mints, grants and deletes nothing", len(forms) + 3, lost)


@pytest.mark.parametrize(("page", "action", "fields", "kept"), FORMS)
def test_after_confirming_the_form_is_as_it_was_left(
    ada: Browser, db_session: Session, page: str, action: str, fields: dict[str, str], kept: str
) -> None:
    _age(db_session, 16)
    back = _confirm(ada, db_session, ada.post(page, action, **fields).headers["Location"])
    assert back.startswith(f"{page}?typed=")
    assert kept in ada.get(back)
    assert ada.post(back, action, **fields).status_code == 200


def test_a_recent_session_is_not_asked(ada: Browser, db_session: Session) -> None:
    _age(db_session, 14.9)
    assert ada.post("/developer", "/developer/ingest-keys").status_code == 200
    answer = ada.client.get("/sign-in/confirm?next=/upload")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/upload")


def test_after_confirming_consent_goes_on_with_the_same_question(
    ada: Browser, sessions: Sessions, db_session: Session
) -> None:
    application = add_application(sessions, add_tenant(sessions).account_id)
    _age(db_session, 60)
    asked = ada.client.get(AUTHORIZE, query_string=application.asks())
    back = _confirm(ada, db_session, asked.headers["Location"])
    assert back.startswith(f"{AUTHORIZE}?")
    assert "Authorize Spend Watcher" in words_of(ada.get(back))


@pytest.mark.parametrize("onward", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_confirming_leads_to_this_site_only(ada: Browser, db_session: Session, onward: str) -> None:
    answer = ada.client.get("/sign-in/confirm", query_string={"next": onward})
    assert answer.headers["Location"] == "/dashboard"
    _age(db_session, 60)
    answer = ada.client.get("/sign-in/confirm", query_string={"next": onward})
    assert "evil.example" not in answer.get_data(as_text=True)


MINTS = (
    ("/developer", "/developer/ingest-keys", {"label": "https://evil.example"}, "New ingest key"),
    ("/developer", "/developer/read-tokens", {"scope": "read:audits"}, "New read token"),
    (*FORMS[2][:3], "New OAuth application"),
)


@pytest.mark.parametrize(("page", "action", "fields", "subject"), MINTS)
def test_the_owner_is_mailed_about_a_new_secret_without_its_label(
    ada: Browser, db_session: Session, page: str, action: str, fields: dict[str, str], subject: str
) -> None:
    assert ada.post(page, action, **fields).status_code == 200
    [mail] = db_session.scalars(select(Mail))
    assert (mail.kind, mail.recipient) == ("security_notice", "ada@example.org")
    assert "evil" not in str(mail.parameters)


def test_a_sign_in_from_a_new_browser_is_mailed_and_from_a_known_one_is_not(
    app: Flask, db_session: Session
) -> None:
    laptop, phone = app.test_client(), app.test_client()
    mails = []
    for client in (laptop, laptop, phone, phone, laptop):
        client.post("/auth/magic-link", json={"email": "ada@example.org"})
        newest = select(MagicLink.id).order_by(MagicLink.created_at.desc()).limit(1)
        token, _ = derive(Kind.MAGIC_LINK, SECRET_KEY, str(db_session.scalar(newest)))
        assert client.get("/auth/verify", query_string={"token": token}).status_code == 200
        assert client.post("/auth/logout", json={}).status_code == 200
        notices = select(func.count()).where(Mail.kind == "security_notice")
        mails.append(db_session.scalar(notices))
    assert mails == [0, 0, 1, 1, 1]


def test_tokens_expire_after_ninety_days_unless_never_is_chosen(
    ada: Browser, db_session: Session
) -> None:
    page = ada.get("/developer")
    assert '<option value="90" selected>In 90 days</option>' in page
    for chosen in ({}, {"expires_in_days": ""}):
        sent = {"scope": "read:audits", **chosen}
        assert ada.post("/developer", "/developer/read-tokens", **sent).status_code == 200
    by_time = select(ReadToken.expires_at).order_by(ReadToken.created_at)
    default, never = db_session.scalars(by_time)
    assert default is not None
    assert abs(default - utc_now() - timedelta(days=90)) < timedelta(minutes=1)
    assert never is None
