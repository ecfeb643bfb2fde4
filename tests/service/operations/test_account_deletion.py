"""Deleting an account removes its data, keeps the books, and affects no other account."""

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.core.tokens import sign_report
from service.mail.delivery import mail_file_name
from service.models import (
    Account,
    Audit,
    Base,
    Credit,
    Customer,
    EarlyAccess,
    FindingRow,
    IdempotencyKey,
    IngestKey,
    MagicLink,
    Mail,
    Payment,
    PaymentEvent,
    ReadToken,
    ReportRow,
    Subscription,
)
from service.models.access.oauth import OAuthApplication, OAuthCode, OAuthToken
from service.models.audits.blob_keys import pdf_key
from service.models.base import new_id, utc_now
from service.models.billing.credits import count_free_credits
from service.models.identity.sign_in import add_magic_link
from service.operations.maintenance import account_deletion
from service.operations.maintenance.account_deletion import delete_account
from service.payments.events import Change, CustomerUpdated, Payer, PaymentUpdated, VerifiedEvent
from service.payments.owners import adopt_payments
from service.payments.recording import record_event
from tests.service.support.browser import Browser, words_of
from tests.service.support.oauth_flow import add_application, add_token
from tests.service.support.scenes import INGEST, SECRET_KEY, Sessions, batch, bearer, error_of

PAGE = "/settings/delete"
_OWNED = (
    Audit, FindingRow, ReportRow, IdempotencyKey, Credit, IngestKey, ReadToken, Subscription,
    Mail, MagicLink, EarlyAccess, Account, OAuthApplication, OAuthCode, OAuthToken,
)  # fmt: skip


@pytest.fixture
def furnish(app: Flask, sessions: Sessions) -> Callable[..., str]:
    """Give an account one of everything; returns its ingest key."""

    def furnish(browser: Browser, audits: int = 2) -> str:
        with sessions() as session:
            owner = {"account_id": browser.account_id}
            for number in range(audits):
                _add_audit(session, app.extensions["blobs"], browser.account_id, number)
            key, secret = IngestKey.minted(browser.account_id)
            token, _ = ReadToken.minted(browser.account_id, scopes=["read:audits"])
            add_magic_link(session, browser.email, SECRET_KEY, minutes=15, next_path=None)
            reported = {"kind": "sign_in", "parameters": {}}
            session.add_all(
                [
                    key,
                    token,
                    Subscription(**owner, plan="pro", status="active", provider="stripe"),
                    _payment(browser, customer_reference=_customer(browser)),
                    Customer(provider="stripe", reference=_customer(browser), email=browser.email),
                    Mail(**reported, recipient=browser.email),
                    Mail(**reported, recipient="someone@example.org", **owner),
                    EarlyAccess(email=browser.email),
                ]
            )
            session.flush()
            adopt_payments(session, session.get_one(Account, browser.account_id))
            session.commit()
        application = add_application(sessions, browser.account_id)
        add_token(sessions, application, browser.account_id)  # and the code that it was given for
        return secret

    return furnish


def _customer(browser: Browser) -> str:
    return f"cus-{browser.email.partition('@')[0]}"


def _payment(browser: Browser, **fields: Any) -> Payment:
    reported = {"provider": "stripe", "kind": "credit", "amount": Decimal(49), "currency": "USD"}
    paid = {"reference": new_id(), "email": browser.email, "paid_at": utc_now()}
    return Payment(**{**reported, **paid, **fields})


def _add_audit(session: Session, blobs: Any, account_id: str, number: int) -> None:
    audit = Audit(id=new_id(), account_id=account_id, source="ingest", status="done")
    audit.blob_key, audit.frame_key = f"raw/{audit.id}.jsonl", f"frames/{audit.id}-1.parquet"
    for key in (audit.blob_key, audit.frame_key, pdf_key(audit.frame_key)):
        blobs.put(key, b"bytes")
    finding = {
        "id": "d1-001", "detector": "d1", "kind": "d1", "route": "r", "provider": "p", "model": "m",
        "calls": 1, "severity": "high", "confidence": "ESTIMATED", "fix": "f",
        "monthly_cost_impact_usd": 1, "observed_cost_impact_usd": 1,
    }  # fmt: skip
    session.add(audit)
    session.flush()
    session.add_all(
        [
            FindingRow(audit_id=audit.id, rank=1, **finding),
            ReportRow(audit_id=audit.id, document=b"{}"),
            IdempotencyKey(
                account_id=account_id, audit_id=audit.id, route="ingest", key=f"key {number}"
            ),
        ]
    )


def _count(session: Session) -> dict[str, int]:
    return {
        table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0
        for table in _OWNED
    }


def _delete(browser: Browser) -> Any:
    return browser.post(PAGE, PAGE, email=f" {browser.email.upper()} ")


def test_everything_goes_and_the_browser_is_signed_out(
    ada: Browser, furnish: Callable[..., str], db_session: Session, blobs: Path
) -> None:
    secret = furnish(ada)
    [audit_id, _] = db_session.scalars(select(Audit.id)).all()
    db_session.get_one(Account, ada.account_id).name = "Boats & Co"
    db_session.commit()
    named = blobs / pdf_key(f"frames/{audit_id}-1.parquet", "Boats & Co")
    named.write_bytes(b"bytes")
    assert all(_count(db_session).values())
    answer = _delete(ada)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/deleted")
    assert "Your account has been deleted" in ada.get("/deleted")
    db_session.expire_all()
    assert _count(db_session) == dict.fromkeys(_count(db_session), 0)
    assert [path for path in blobs.rglob("*") if path.is_file()] == []
    assert ada.client.get("/settings").headers["Location"].startswith("/sign-in")
    assert ada.client.post(INGEST, json=batch(), headers=bearer(secret)).status_code == 401
    assert ada.client.get(f"/r/{sign_report(SECRET_KEY, audit_id)}").status_code == 404


def test_nothing_of_another_account_is_touched(
    ada: Browser, eve: Browser, furnish: Callable[..., str], db_session: Session, blobs: Path
) -> None:
    secret = furnish(eve)
    before, files = _count(db_session), {path.name for path in blobs.rglob("*") if path.is_file()}
    furnish(ada)
    # A payment of Eve's for which somebody typed Ada's address, and a customer of both.
    shared = _payment(eve, account_id=eve.account_id, customer_reference="cus-shared")
    theirs = _payment(ada, account_id=eve.account_id, customer_reference="cus-typed")
    hers = _payment(ada, account_id=ada.account_id, customer_reference="cus-shared")
    customers = [
        Customer(provider="stripe", reference="cus-shared", email="office@example.org"),
        Customer(provider="stripe", reference="cus-typed", email="else@example.org"),
    ]
    db_session.add_all([shared, theirs, hers, *customers])
    db_session.commit()
    assert _delete(ada).status_code == 303
    db_session.expire_all()
    assert _count(db_session) == {**before, "accounts": 1}
    assert {path.name for path in blobs.rglob("*") if path.is_file()} == files
    assert eve.client.post(INGEST, json=batch(), headers=bearer(secret)).status_code == 201
    assert (shared.account_id, shared.email, shared.closed_at) == (eve.account_id, eve.email, None)
    assert (theirs.account_id, theirs.email, theirs.closed_at) == (eve.account_id, None, None)
    assert [one.email for one in customers] == ["office@example.org", "else@example.org"]


def test_no_table_but_the_books_knows_the_address_or_the_account_any_more(
    ada: Browser, furnish: Callable[..., str], db_session: Session
) -> None:
    furnish(ada)
    other_address = _payment(ada, account_id=ada.account_id, email="adas-card@example.org")
    other_address.customer_reference = "cus-card"
    card = Customer(provider="stripe", reference="cus-card", email="adas-card@example.org")
    db_session.add_all([other_address, card])
    db_session.commit()
    _delete(ada)
    db_session.expire_all()
    for table in Base.metadata.sorted_tables:
        for row in db_session.execute(select(table)).all():
            assert not re.search(rf"{ada.email}|adas-card|{ada.account_id}", str(row)), table.name
    payments = db_session.scalars(select(Payment)).all()
    assert len(payments) == 2
    assert all(one.closed_at and one.paid_at and one.amount == 49 for one in payments)


def test_what_was_paid_before_buys_nothing_for_the_same_address_again(
    app: Flask, ada: Browser, furnish: Callable[..., str], sessions: Sessions
) -> None:
    furnish(ada)
    with sessions() as session:
        reference = session.scalars(select(Payment.reference)).one()
    _delete(ada)
    again = Browser(app, sessions, ada.email)
    assert again.account_id != ada.account_id
    reported = PaymentUpdated(
        reference=reference,
        payer=Payer(customer_reference=_customer(ada), email=ada.email),
        kind="credit",
        amount=Decimal(49),
        currency="USD",
    )
    with sessions() as session:
        event = VerifiedEvent(
            provider="stripe",
            event_id="evt_later",
            type="sent again",
            occurred_at=utc_now(),
            payload={},
            changes=(reported,),
        )
        assert record_event(session, event)
        adopt_payments(session, session.get_one(Account, again.account_id))
        session.commit()
        payment = session.scalars(select(Payment)).one()
        assert (payment.email, payment.account_id) == (None, None)
        assert session.scalars(select(Credit)).all() == []
        later = select(PaymentEvent).where(PaymentEvent.event_id == "evt_later")
        assert session.scalars(later).one()


def test_another_address_deletes_nothing(
    ada: Browser, eve: Browser, furnish: Callable[..., str], db_session: Session
) -> None:
    furnish(ada)
    before = _count(db_session)
    for typed in ("", "eve@example.org", "ada", "ada@example.org.evil.example"):
        answer = ada.post(PAGE, PAGE, email=typed)
        assert answer.status_code == 422
        assert "your account&#39;s email address" in answer.get_data(as_text=True)
        assert _count(db_session) == before
        ada.get("/settings")


def test_the_page_says_what_stays_and_warns_of_a_running_subscription(
    ada: Browser, furnish: Callable[..., str]
) -> None:
    before = words_of(ada.get(PAGE))
    assert "Kept Payments, as accounting law requires" in before
    assert "Cancel your subscription first" not in before
    furnish(ada)
    assert "Cancel your subscription first" in words_of(ada.get(PAGE))
    assert "Pro with Stripe" in words_of(ada.get(PAGE))


def test_blobs_that_would_keep_a_person_waiting_are_left_to_the_sweeper(
    ada: Browser,
    furnish: Callable[..., str],
    db_session: Session,
    blobs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    furnish(ada)
    monkeypatch.setattr(account_deletion, "_BLOB_SECONDS", -1.0)
    assert _delete(ada).status_code == 303
    assert len([path for path in blobs.rglob("*") if path.is_file()]) == 6
    assert not any(_count(db_session).values())


def test_an_interrupted_deletion_can_be_repeated(
    ada: Browser, furnish: Callable[..., str], db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(ada, audits=3)
    whole = delete_account

    def break_off(*_args: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(account_deletion, "delete_account", break_off)
    assert _delete(ada).status_code == 500
    monkeypatch.setattr(account_deletion, "delete_account", whole)
    assert _delete(ada).status_code == 303
    db_session.expire_all()
    assert not any(_count(db_session).values())


def test_requests_after_the_accounts_deletion_are_rejected_without_a_trace(
    make_app: Callable[..., Flask], sessions: Sessions
) -> None:
    app = make_app()

    def late() -> str:
        key, _secret = IngestKey.minted("an account that is gone")
        with sessions() as session:
            session.add(key)
            session.commit()
        return "never"

    app.add_url_rule("/api/v1/late", view_func=late)
    answer = app.test_client().get("/api/v1/late")
    assert error_of(answer, 401, "unauthorized") == "This account has been deleted."


def _say(session: Session, change: Change, minutes: int) -> None:
    """What the payment provider sends so long after the deletion."""
    assert record_event(
        session,
        VerifiedEvent(
            provider="stripe",
            event_id=new_id(),
            type="customer.updated",
            occurred_at=utc_now() + timedelta(minutes=minutes),
            payload={},
            changes=(change,),
        ),
    )
    session.commit()


def test_a_late_event_does_not_bring_the_address_back(
    ada: Browser, eve: Browser, furnish: Callable[..., str], db_session: Session
) -> None:
    furnish(ada)
    shared = _payment(eve, account_id=eve.account_id, customer_reference=_customer(ada))
    db_session.add(shared)
    db_session.commit()
    assert _delete(ada).status_code == 303
    for minutes, email in ((-60, ada.email), (1, ada.email), (2, "adas-new@example.org")):
        payer = Payer(customer_reference=_customer(ada), email=email)
        _say(db_session, CustomerUpdated(payer=payer), minutes)
        assert db_session.scalars(select(Customer.email)).all() == [None]


def test_who_comes_back_is_known_to_the_payment_provider_again(
    app: Flask, ada: Browser, furnish: Callable[..., str], sessions: Sessions
) -> None:
    """By a new account, or by a new payment that waits for one."""
    furnish(ada)
    assert _delete(ada).status_code == 303
    payer = Payer(customer_reference=_customer(ada), email=ada.email)
    with sessions() as session:
        _say(session, PaymentUpdated(reference="pi_new", kind="credit", payer=payer), 1)
        assert session.scalars(select(Customer.email)).all() == [ada.email]
        again = Account(email=ada.email)
        session.add(again)
        adopt_payments(session, again)
        session.commit()
        assert count_free_credits(session, again.id) == 1


def test_the_files_of_its_mails_are_deleted(
    share_app: Callable[..., Flask], sessions: Sessions, db_session: Session, tmp_path: Path
) -> None:
    app = share_app(outbox_folder=str(tmp_path / "outbox"))
    ada = Browser(app, sessions, "ada@example.org")
    owned = {"kind": "sign_in", "parameters": {}, "status": "sent"}
    mine = Mail(**owned, recipient=ada.email)
    other = Mail(**owned, recipient="eve@example.org")
    db_session.add_all([mine, other])
    db_session.commit()
    files = [tmp_path / "outbox" / mail_file_name(mail.id) for mail in (mine, other)]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("To: somebody")
    assert _delete(ada).status_code == 303
    assert [file.exists() for file in files] == [False, True]
