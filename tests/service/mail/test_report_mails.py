"""Mails about reports: each, a daily digest, or none."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.message import EmailMessage
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.config import Config
from service.core.tokens import verify_report
from service.mail.messages import compose
from service.mail.report_ready import post_report_ready
from service.models import Account, Audit, Mail
from service.models.base import new_id, utc_now
from service.models.mail.report_mails import (
    DIGEST_AUDITS,
    MAILS_A_DAY,
    REPORT_DIGEST,
    REPORT_READY,
    find_report_reader,
    post_digests,
)
from tests.cases import each_case
from tests.service.support.browser import Browser
from tests.service.support.scaled_reports import make_scaled_report
from tests.service.support.scenes import Sessions, add_account

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
NOON = MIDNIGHT - timedelta(hours=12)
LONG_AGO = MIDNIGHT - timedelta(days=1)
AddAudit = Callable[..., Audit]


@pytest.fixture
def account(db_session: Session) -> Account:
    account = add_account(
        db_session, email="ada@example.org", report_mails="daily", digest_sent_until=LONG_AGO
    )
    db_session.commit()
    return account


@pytest.fixture
def add_audit(db_session: Session, account: Account) -> AddAudit:
    def add(**fields: Any) -> Audit:
        defaults = {
            "account_id": account.id, "source": "ingest", "status": "done", "finished_at": NOON,
            "blob_key": "raw/x.jsonl", "records": 10, "total_spend_usd": Decimal("1.5"),
            "projected_savings_usd": Decimal("2.25"), "findings_count": 9,
            "priced_findings": 1,
        }  # fmt: skip
        audit = Audit(id=new_id(), **{**defaults, **fields})
        db_session.add(audit)
        db_session.commit()
        return audit

    return add


def _post(session: Session, midnight: datetime = MIDNIGHT, limit: int = 500) -> int:
    count = post_digests(session.connection(), midnight, limit)
    session.commit()
    return count


def _mails(session: Session) -> list[Mail]:
    session.expire_all()
    return list(session.scalars(select(Mail).order_by(Mail.created_at)))


def _text(message: EmailMessage, kind: str = "plain") -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_the_choice_is_kept_and_shown(app: Flask, sessions: Sessions, db_session: Session) -> None:
    browser = Browser(app, sessions, "ada@example.org")
    assert 'value="weekly" checked' in browser.get("/settings")
    for choice in ("daily", "none", "weekly", "each"):
        answer = browser.post("/settings", "/settings/report-mails", report_mails=choice)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?saved=")
        page = browser.get("/settings?saved=")
        assert f'value="{choice}" checked' in page
        assert "Saved." in page
    refused = browser.post("/settings", "/settings/report-mails", report_mails="hourly")
    assert refused.status_code == 422
    assert db_session.scalars(select(Account.report_mails)).one() == "each"
    # Mails about spend can be switched off.
    assert 'name="spend_mails" value="daily" checked' in browser.get("/settings")
    for choice in ("none", "daily"):
        answer = browser.post("/settings", "/settings/spend-mails", spend_mails=choice)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?saved=")
        assert f'name="spend_mails" value="{choice}" checked' in browser.get("/settings?saved=")
        assert db_session.scalars(select(Account.spend_mails)).one() is (choice == "daily")
    assert browser.post("/settings", "/settings/spend-mails").status_code == 422


@each_case(
    ("choice", "source", "is_mailed"),
    [
        ("each", "ingest", True),
        ("daily", "ingest", False),
        ("none", "ingest", False),
        ("each", "upload", True),
        ("daily", "upload", True),
        ("none", "upload", True),
    ],
)
def test_uploads_are_always_mailed_and_batches_as_chosen(
    db_session: Session,
    account: Account,
    add_audit: AddAudit,
    choice: str,
    source: str,
    is_mailed: bool,
) -> None:
    account.report_mails = choice
    audit = add_audit(source=source)
    reader = find_report_reader(db_session.connection(), audit.id)
    assert (reader is not None) == is_mailed
    if reader:
        assert reader == (account.id, account.email, source == "upload", False)


def test_after_five_mails_within_a_day_reports_of_batches_wait_for_the_digest(
    db_session: Session, account: Account, add_audit: AddAudit
) -> None:
    account.report_mails = "each"
    batch, upload = add_audit(), add_audit(source="upload")
    readers = []
    for number in range(MAILS_A_DAY + 2):
        readers.append(find_report_reader(db_session.connection(), batch.id))
        mail = Mail(
            account_id=account.id, kind=REPORT_READY, recipient=account.email, parameters={}
        )
        # An older one does not count.
        mail.created_at = utc_now() - timedelta(hours=25 if number == 0 else 1)
        db_session.add(mail)
        db_session.flush()
    assert [reader and reader.is_last for reader in readers] == [False] * 5 + [True, None]
    reader = find_report_reader(db_session.connection(), upload.id)
    assert reader == (account.id, account.email, True, False)


def test_the_digest_of_an_account_with_a_mail_per_report_has_the_others(
    db_session: Session, account: Account, add_audit: AddAudit
) -> None:
    account.report_mails, account.digest_sent_until = "each", MIDNIGHT - timedelta(days=400)
    mailed = add_audit()
    add_audit(finished_at=MIDNIGHT - timedelta(days=3))
    waiting = [add_audit() for _ in range(2)]
    key = f"{REPORT_READY}:{mailed.id}"
    db_session.add(
        Mail(account_id=account.id, kind=REPORT_READY, recipient="a@b.c", dedupe_key=key)
    )
    db_session.commit()
    assert _post(db_session) == 1
    assert _post(db_session) == 0
    (digest,) = (mail for mail in _mails(db_session) if mail.kind == REPORT_DIGEST)
    assert {audit["audit_id"] for audit in digest.parameters["listed"]} == {
        audit.id for audit in waiting
    }
    assert digest.parameters["audits"] == 2


def test_a_leaked_key_writes_nothing_into_the_inbox(
    db_session: Session, account: Account, add_audit: AddAudit, config: Config
) -> None:
    account.report_mails, account.digest_sent_until = "each", LONG_AGO
    bait = "Your account is locked. Verify now: https://evil.example/login"
    report = make_scaled_report(findings=3, labels=(bait,))
    assert any(finding.route == bait for finding in report.findings)
    for _ in range(200):
        post_report_ready(db_session.connection(), add_audit().id, report)
    assert _post(db_session) == 1
    mails = _mails(db_session)
    assert [mail.kind for mail in mails].count(REPORT_DIGEST) == 1
    assert len(mails) == MAILS_A_DAY + 1
    for message in (compose(config, mail) for mail in mails):
        text = f"{message['Subject']} {_text(message)} {_text(message, 'html')}"
        assert not re.search("locked|Verify|evil", text + str([mail.parameters for mail in mails]))


def test_a_digest_lists_a_days_batches_once(
    db_session: Session, account: Account, add_audit: AddAudit, config: Config
) -> None:
    audits = [add_audit(projected_savings_usd=Decimal(number)) for number in range(12)]
    unwanted = (
        add_audit(source="upload"), add_audit(status="failed"),
        add_audit(finished_at=LONG_AGO - timedelta(seconds=1)), add_audit(finished_at=MIDNIGHT),
    )  # fmt: skip
    assert _post(db_session) == 1
    assert _post(db_session) == 0
    [mail] = _mails(db_session)
    assert (mail.kind, mail.recipient) == (REPORT_DIGEST, account.email)
    assert mail.account_id == account.id
    message = compose(config, mail)
    assert message["Subject"] == "12 reports ready on Mar 1, 2026 (UTC)"
    for kind in ("plain", "html"):
        words = _text(message, kind)
        assert "120 calls for $18.00 at list prices" in words
        assert words.count("1 finding, $") == DIGEST_AUDITS
        assert "And 2 more" in words
        assert "http://localhost:8000/settings" in words
    links = [line for line in _text(message).splitlines() if "/r/" in line]
    named = [
        verify_report(config.secret_keys, link.rpartition("/")[2], config.report_link_days).audit_id
        for link in links
    ]
    assert named == [audit.id for audit in reversed(audits)][:DIGEST_AUDITS]
    assert not {audit.id for audit in unwanted} & set(named)
    # Nothing at rest opens a report.
    assert "/r/" not in str(mail.parameters)


@pytest.mark.parametrize("choice", ["each", "none"])
def test_accounts_without_the_digest_setting_get_none(
    db_session: Session, account: Account, add_audit: AddAudit, choice: str
) -> None:
    account.report_mails = choice
    audit = add_audit()
    if choice == "each":
        key = f"{REPORT_READY}:{audit.id}"
        mail = Mail(account_id=account.id, kind=REPORT_READY, recipient="a@b.c", dedupe_key=key)
        db_session.add(mail)
        db_session.commit()
    assert _post(db_session) == 0


def test_a_day_without_reports_sends_no_digest(db_session: Session, account: Account) -> None:
    assert _post(db_session) == 0
    assert _mails(db_session) == []


def test_reports_ready_before_the_choice_are_not_mailed_again(
    db_session: Session, account: Account, add_audit: AddAudit, config: Config
) -> None:
    account.digest_sent_until = NOON
    add_audit(finished_at=NOON - timedelta(seconds=1))
    assert _post(db_session) == 0
    add_audit(finished_at=NOON)
    assert _post(db_session) == 1
    message = compose(config, _mails(db_session)[0])
    assert message["Subject"] == "1 report ready on Mar 1, 2026 (UTC)"


def test_days_without_a_sweeper_share_one_digest(
    db_session: Session, account: Account, add_audit: AddAudit, config: Config
) -> None:
    add_audit()
    add_audit(finished_at=NOON + timedelta(days=2))
    later = MIDNIGHT + timedelta(days=2)
    assert _post(db_session, later) == 1
    message = compose(config, _mails(db_session)[0])
    assert message["Subject"] == "2 reports ready from Mar 1, 2026 to Mar 3, 2026 (UTC)"
    add_audit(finished_at=later + timedelta(hours=1))
    assert _post(db_session, later + timedelta(days=1)) == 1
    assert len(_mails(db_session)) == 2


def test_many_accounts_are_processed_in_pages(
    db_session: Session, account: Account, add_audit: AddAudit
) -> None:
    for number in range(3):
        other = add_account(
            db_session,
            email=f"{number}@example.org",
            report_mails="daily",
            digest_sent_until=LONG_AGO,
        )
        add_audit(account_id=other.id)
    assert [_post(db_session, limit=2) for _ in range(3)] == [2, 1, 0]
    assert sorted(mail.recipient for mail in _mails(db_session)) == [
        "0@example.org", "1@example.org", "2@example.org",
    ]  # fmt: skip
