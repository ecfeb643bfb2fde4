"""Targets of notices: added, tested, disabled, enabled and removed, by their owner alone."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import Mail, NoticeDelivery, NoticeTarget
from service.models.base import utc_now
from service.models.notices.deliveries import post_notice
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import MAX_TARGETS
from service.notices import addresses
from tests.cases import each_case
from tests.notice_receiver import resolving
from tests.service.support.browser import Browser, codes_of, words_of
from tests.service.support.scenes import Sessions

PAGE, ADD = "/settings/notices", "/settings/notices/add"
URL = "https://hooks.example.com/canary-path?token=canary-query"


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    known = {"hooks.example.com": [["93.184.216.34"]], "hooks.slack.com": [["93.184.216.35"]]}
    monkeypatch.setattr(addresses, "look_up", resolving(known))
    return known


def _add(browser: Browser, url: str = URL, **fields: str | list[str]) -> tuple[int, str]:
    form = {"kind": "webhook", "url": url, "event": [REPORT_READY], "label": "", **fields}
    answer = browser.post(ADD, ADD, **form)
    return answer.status_code, answer.get_data(as_text=True)


def _target(session: Session) -> NoticeTarget:
    session.expire_all()
    return session.scalars(select(NoticeTarget)).one()


def test_a_webhooks_secret_is_shown_once_and_its_url_never(
    ada: Browser, db_session: Session
) -> None:
    status, page = _add(ada, label="Spend bot")
    assert status == 200
    [secret] = [code for code in codes_of(page) if code.startswith("whsec_")]
    target = _target(db_session)
    assert (target.secret, target.url, target.label) == (secret, URL, "Spend bot")
    listed = ada.get(PAGE)
    assert "Spend bot Webhook at hooks.example.com" in words_of(listed)
    assert secret not in listed
    assert "canary" not in listed
    mails = db_session.scalars(select(Mail.parameters)).all()
    assert [mail["event"] for mail in mails] == ["target_added"]
    assert "Webhook or Slack channel added" in ada.get("/settings/activity")


def test_a_slack_channel_has_no_secret(ada: Browser, db_session: Session) -> None:
    url = "https://hooks.slack.com/services/T0/B0/canary"
    assert _add(ada, url, kind="slack")[0] == 303
    assert _target(db_session).secret == ""
    listed = ada.get(PAGE)
    assert "hooks.slack.com Slack channel" in words_of(listed)
    assert "canary" not in listed


@each_case(
    ("fields", "words"),
    [
        ({"url": "http://hooks.example.com/"}, "must start with https://"),
        ({"url": "https://169.254.169.254/latest"}, "isn't on the public internet"),
        ({"url": "https://0x7f.1/"}, "four decimal numbers"),
        ({"url": URL, "kind": "slack"}, "Slack webhook URL"),
        ({"url": URL, "kind": "pigeon"}, "Choose a webhook or Slack"),
        ({"url": URL, "event": ["nothing"]}, "at least one event"),
        ({"url": URL, "label": "x" * 61}, "at most 60 characters"),
    ],
)
def test_a_target_that_cannot_be_is_refused_with_the_reason(
    ada: Browser, db_session: Session, fields: dict[str, str], words: str
) -> None:
    status, page = _add(ada, **fields)
    assert status == 422
    assert words in words_of(page)
    assert db_session.scalars(select(NoticeTarget)).all() == []


def test_an_account_has_few_targets(ada: Browser) -> None:
    assert [_add(ada)[0] for _ in range(MAX_TARGETS + 1)] == [200] * MAX_TARGETS + [422]
    assert "You've added all 5 targets" in words_of(ada.get(PAGE))


def test_targets_are_not_added_in_a_loop(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    """Each addition asks a resolver, and waits for it."""
    browser = Browser(share_app(notice_limit_per_minute=1), sessions, "x@example.org")
    assert [_add(browser, "https://0x7f.1/")[0] for _ in range(2)] == [422, 429]


def test_a_test_is_queued_once_and_gone_with_its_target(ada: Browser, db_session: Session) -> None:
    _add(ada)
    target = _target(db_session)
    for _ in range(2):
        answer = ada.post(PAGE, f"{PAGE}/{target.id}/test")
        assert answer.headers["Location"] == f"{PAGE}?sent="
    [delivery] = db_session.scalars(select(NoticeDelivery)).all()
    assert (delivery.event_type, delivery.status) == ("test", "queued")
    assert "test" in words_of(ada.get(f"{PAGE}?sent="))
    # A removed target is gone with its deliveries.
    assert ada.post(PAGE, f"{PAGE}/{target.id}/remove").status_code == 303
    assert db_session.scalars(select(NoticeDelivery)).all() == []
    assert "No webhooks or Slack channels yet" in ada.get(PAGE)


def test_deliveries_are_listed_with_their_outcome_and_resent(
    ada: Browser, db_session: Session
) -> None:
    _add(ada)
    posted = {
        name: post_notice(db_session, ada.account_id, REPORT_READY, {}, dedupe_key=name)[0]
        for name in ("delivered", "failed", "queued")
    }
    db_session.commit()
    outcomes: dict[str, dict[str, object]] = {
        "delivered": {"attempts": 1, "status_code": 204, "delivered_at": utc_now()},
        "failed": {"attempts": 12, "status_code": 500, "error": "given up"},
        "queued": {"attempts": 2, "error": "TimeoutError"},
    }
    for status, values in outcomes.items():
        named = update(NoticeDelivery).where(NoticeDelivery.id == posted[status])
        db_session.execute(named.values(status=status, **values))
    db_session.commit()
    words = words_of(ada.get(PAGE))
    assert re.search(r"Delivered .* UTC 204 1 ", words)
    assert "Failed Gave up after 24 hours (500) 12 " in words
    assert re.search(r"Retrying next .* UTC No response in time 2 ", words)
    for delivery_id in posted.values():
        answer = ada.post(PAGE, f"{PAGE}/deliveries/{delivery_id}/resend")
        assert answer.status_code == 303
    db_session.expire_all()
    rows = db_session.scalars(select(NoticeDelivery)).all()
    assert {(row.status, row.attempts, row.error) for row in rows} == {("queued", 0, None)}
    assert len({row.event_id for row in rows}) == 3


def test_a_disabled_target_says_why_and_is_enabled_again(ada: Browser, db_session: Session) -> None:
    _add(ada)
    target = _target(db_session)
    disabled = update(NoticeTarget).values(disabled_at=utc_now(), disabled_reason="gone")
    db_session.execute(disabled)
    db_session.commit()
    assert "Disabled It responded with 410 (Gone)" in words_of(ada.get(PAGE))
    assert ada.act(PAGE, f"{PAGE}/{target.id}/test").status_code == 404
    assert ada.post(PAGE, f"{PAGE}/{target.id}/enable").status_code == 303
    assert "Active" in words_of(ada.get(PAGE))
    assert _target(db_session).disabled_reason is None
