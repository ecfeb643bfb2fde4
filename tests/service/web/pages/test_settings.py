"""Browser names in the list of sessions, and whose sessions are listed."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.core.time_zones import minute
from service.jobs.queues import AuditQueues
from service.models import Account, StoredData, WebSession
from service.models.base import utc_now
from service.web.auth.browsers import describe_browser
from tests.cases import each_case
from tests.service.support.browser import Browser
from tests.service.support.documents import make_report
from tests.service.support.scenes import Sessions, sign_in
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)"


@each_case(
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
    client: FlaskClient, sessions: Sessions, db_session: Session
) -> None:
    headers = sign_in(sessions, "ada@example.org")
    row = db_session.scalars(select(WebSession)).one()
    row.user_agent = "<script>alert(1)</script>"
    db_session.commit()
    page = client.get("/settings/sessions", headers=headers).get_data(as_text=True)
    assert "<script>" not in page
    assert "Unknown browser" in page


def test_sessions_that_are_over_are_not_listed(
    client: FlaskClient, sessions: Sessions, db_session: Session
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


def test_other_sessions_are_ended_one_by_one_or_together(
    app: Flask, sessions: Sessions, eve: Browser
) -> None:
    page, button = "/settings/sessions", "Sign out all other sessions"
    one = Browser(app, sessions, "ada@example.org")
    assert button not in one.get(page)
    two, three = (Browser(app, sessions, "ada@example.org") for _ in range(2))
    listed = one.get(page)
    assert button in listed
    assert listed.count("(current session)") == 1
    ids = re.findall(r'action="/settings/sessions/([0-9a-f]+)/revoke"', listed)
    assert len(ids) == 3

    def signed_in() -> list[bool]:
        return [each.client.get(page).status_code == 200 for each in (one, two, three, eve)]

    with sessions() as session:
        newest = WebSession.created_at.desc()
        own = select(WebSession.id).where(WebSession.account_id == one.account_id).order_by(newest)
        of_three = session.scalars(own).first()
    revoke = f"{page}/{of_three}/revoke"
    assert one.post(page, revoke).status_code == 303
    assert signed_in() == [True, True, False, True]
    assert one.act(page, revoke).status_code == 404
    assert one.post(page, f"{page}/revoke-others").status_code == 303
    assert signed_in() == [True, False, False, True]


def test_the_owner_sees_what_is_stored_and_for_how_long(
    client: FlaskClient, sessions: Sessions, db_session: Session
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
    app: Flask, sessions: Sessions, db_session: Session
) -> None:
    browser = Browser(app, sessions, "ada@example.org")
    for typed, kept in ((" team ", "team"), ("gen_ai.agent.name", "gen_ai.agent.name"), ("", None)):
        answer = browser.post("/settings", "/settings/tag-attribute", tag_attribute=typed)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?saved=")
        assert f'name="tag_attribute" value="{kept or ""}"' in browser.get("/settings?saved=")
        assert db_session.scalars(select(Account.tag_attribute)).one() == kept


@each_case("name", ["gen_ai.input.messages", "input.value", "content", "x" * 101, "a\nb", "ü"])
def test_an_attribute_with_text_or_without_a_name_is_no_tag(
    app: Flask, sessions: Sessions, db_session: Session, name: str
) -> None:
    browser = Browser(app, sessions, "ada@example.org")
    answer = browser.post("/settings", "/settings/tag-attribute", tag_attribute=name)
    assert answer.status_code == 422
    assert db_session.scalars(select(Account.tag_attribute)).one() is None


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("Europe/Zurich", "Mar 1, 2026, 15:05 CET"),
        ("Asia/Kathmandu", "Mar 1, 2026, 19:50 UTC+0545"),
        ("America/Los_Angeles", "Mar 1, 2026, 06:05 PST"),
        ("UTC", "Mar 1, 2026, 14:05 UTC"),
    ],
)
def test_pages_show_times_in_the_chosen_zone_and_reports_stay_in_utc(
    ada: Browser, sessions: Sessions, zone: str, shown: str
) -> None:
    at = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
    report = make_report()
    audit_id = add_run(sessions, ada.account_id, report, created_at=at, finished_at=at)
    answer = ada.post("/settings", "/settings/profile", name="Füllfeder", time_zone=zone)
    assert answer.headers["Location"] == "/settings?saved="
    page = ada.get("/settings")
    assert f"<option selected>{zone}</option>" in page
    assert 'value="Füllfeder"' in page
    assert f'<time datetime="2026-03-01T14:05:00Z">{shown}</time>' in ada.get("/imports")
    body = ada.get(f"/audits/{audit_id}")
    assert shown in body[: body.index('id="quality"')]  # of the audit
    assert re.search("<dt>First call</dt><dd><time[^>]*>[^<]*UTC</time>", body)


def test_another_zone_has_the_calls_counted_again_at_once(
    ada: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueued: list[str] = []
    monkeypatch.setattr(
        AuditQueues, "enqueue_compaction", lambda _, account_id: enqueued.append(account_id)
    )
    for zone, times in (("Asia/Kathmandu", 1), ("Asia/Kathmandu", 1), ("UTC", 2)):
        ada.post("/settings", "/settings/profile", name="", time_zone=zone)
        assert enqueued == [ada.account_id] * times


def test_an_unknown_zone_is_refused_and_one_that_is_gone_is_utc(
    ada: Browser, db_session: Session
) -> None:
    for zone in ("Mars/Base", "", "../../etc/passwd", "posix/Europe/Zurich"):
        assert ada.post("/settings", "/settings/profile", time_zone=zone).status_code == 422
    assert minute(datetime(2026, 3, 1, 14, 5, tzinfo=UTC), "Mars/Base").endswith("14:05 UTC")
