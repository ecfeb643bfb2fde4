"""/billing: payments, credits left, and where to pay."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from service.models import AdminAction, Credit, Payment, Subscription
from service.models.base import utc_now
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Sessions

SOLD: dict[str, Any] = {
    "stripe_webhook_secret": "whsec_x",
    "stripe_credit_link": "https://buy.example/credit",
    "stripe_pro_link": "https://buy.example/pro",
    "stripe_team_link": "https://buy.example/team",
    "paddle_webhook_secret": "pdl_x",
    "paddle_credit_link": "https://pay.example/credit",
    "credit_price_shown": "$49",
}


@pytest.fixture
def browser(share_app: Callable[..., Flask], sessions: Sessions) -> Browser:
    return Browser(share_app(**SOLD), sessions, "ada@example.org")


def _pay(session: Session, account_id: str, **fields: Any) -> Payment:
    defaults = {
        "provider": "stripe",
        "reference": f"r-{fields}",
        "kind": "credit",
        "currency": "USD",
    }
    payment = Payment(**{**defaults, "amount": Decimal("49"), "account_id": account_id, **fields})
    session.add(payment)
    session.flush()
    return payment


def test_a_newcomer_reads_where_to_buy(browser: Browser) -> None:
    page = browser.get("/billing")
    assert "No payments yet" in page
    for link in ("buy.example/credit", "pay.example/credit", "buy.example/pro", "buy.example/team"):
        assert f"https://{link}?" in page
    assert page.count(browser.account_id) == 4
    assert browser.email not in page.partition("<main")[2]
    assert "$49" in page


def test_where_nothing_is_sold_online_plain_words_say_so(app: Flask, sessions: Sessions) -> None:
    words = words_of(Browser(app, sessions, "ada@example.org").get("/billing"))
    assert words.count("Not sold here. Ask the operator.") == 3


def test_payments_show_their_states(browser: Browser, db_session: Session) -> None:
    now = utc_now()
    paid = _pay(db_session, browser.account_id, paid_at=now - timedelta(days=3))
    _pay(db_session, browser.account_id, kind="subscription", plan="pro", amount=None)
    refunded = _pay(db_session, browser.account_id, paid_at=now, refunded_at=now, amount=Decimal(7))
    for payment, revoked_at in ((paid, None), (refunded, now)):
        credit = Credit(account_id=browser.account_id, payment_id=payment.id, revoked_at=revoked_at)
        db_session.add(credit)
    db_session.commit()
    words = words_of(browser.get("/billing"))
    assert "One audit $49.00 Paid Stripe" in words
    assert "Pro subscription Pending Pending" in words
    assert "One audit $7.00 Refunded Stripe" in words
    assert "Credits left 1" in words
    assert "Used credits 0" in words
    assert "Revoked 1" in words


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("active", "Current"),
        ("past_due", "Your plan stays active"),
        ("canceled", "Ingest is paused"),
    ],
)
def test_a_subscription_says_how_it_is(
    browser: Browser, db_session: Session, status: str, says: str
) -> None:
    paid = Subscription(account_id=browser.account_id, plan="pro", status=status, provider="stripe")
    db_session.add(paid)
    db_session.commit()
    page = browser.get("/billing")
    assert says in page
    # Who has Pro moves to Team; who lapsed may buy either again.
    assert ("buy.example/pro" in page) == (status == "canceled")
    assert "buy.example/team" in page


def test_the_owner_of_a_self_hosted_installation_grants_credits(
    share_app: Callable[..., Flask], sessions: Sessions, db_session: Session
) -> None:
    owner = Browser(share_app(owner_email="Owner@localhost"), sessions, "owner@localhost")
    assert "credits are free" in words_of(owner.get("/billing"))
    assert "You have no credits left." in words_of(owner.get("/upload"))
    granted = owner.post("/upload", "/billing/grant", next="/upload")
    assert (granted.status_code, granted.headers["Location"]) == (303, "/upload")
    assert "You have 5 credits left." in words_of(owner.get("/upload"))
    actions = db_session.query(AdminAction).filter_by(target=owner.email).all()
    assert [(action.act, action.via) for action in actions] == [("mark-paid", "web")] * 5
    assert {action.request_id for action in actions} == {granted.headers["X-Request-Id"]}
    # Neither without the token of the form, nor on the way to another site.
    assert owner.client.post("/billing/grant").status_code == 403
    granted = owner.post("/billing", "/billing/grant", next="https://evil.example/")
    assert granted.headers["Location"] == "/billing"


@pytest.mark.parametrize("owner_email", ["", "owner@localhost"])
def test_nobody_else_can_grant_credits(
    share_app: Callable[..., Flask], sessions: Sessions, db_session: Session, owner_email: str
) -> None:
    guest = Browser(share_app(owner_email=owner_email), sessions, "ada@example.org")
    assert "/billing/grant" not in guest.get("/billing") + guest.get("/upload")
    assert guest.act("/upload", "/billing/grant").status_code == 404
    assert db_session.query(Credit).filter_by(account_id=guest.account_id).count() == 0
