"""A payment buys what was sold: the product, amount, currency and quantity, unless disputed."""

import io
from collections.abc import Callable
from itertools import permutations
from typing import Any, Final

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.config import Config
from service.errors import ConfigError
from service.models import Account, Audit, Credit, Payment
from service.models.billing.credits import claim_credit, count_free_credits, return_credit
from service.web.pages.account.billing import state_of
from tests.cases import each_case
from tests.service.payments import paddle_events as paddle
from tests.service.payments import stripe_events as stripe
from tests.service.payments.conftest import Deliver
from tests.service.payments.providers import SETTINGS
from tests.service.payments.test_adoption import sign_up
from tests.service.payments.test_settings import REQUIRED
from tests.service.support.scenes import add_account

MINUTE = 60
OTHER_PRODUCT: dict[str, Any] = {"metadata": {}, "payment_link": "plink_of_a_mug"}


@pytest.fixture
def app(share_app: Callable[..., Flask], request: pytest.FixtureRequest) -> Flask:
    extra = getattr(request, "param", {})
    return share_app(**SETTINGS, stripe_credit_link_id="plink_audit", **extra)


@pytest.fixture
def account(db_session: Session) -> Account:
    account = sign_up(db_session)
    db_session.commit()
    return account


def bought(deliver: Deliver, session: Session, document: dict[str, Any]) -> int:
    """Return the credits that this payment adds."""
    before = len(session.scalars(select(Credit)).all())
    deliver(document)
    return len(session.scalars(select(Credit)).all()) - before


@each_case(
    ("fields", "credits"),
    [
        ({}, 1),
        ({"amount_subtotal": 24_500, "amount_total": 24_500}, 5),
        ({"amount_total": 3_920}, 1),  # with a discount
        ({"amount_total": 5_831}, 1),  # with tax
        ({"amount_subtotal": None}, 1),
        ({"currency": "jpy"}, 1),
        ({"metadata": {}, "payment_link": "plink_audit"}, 1),
        ({"amount_total": 0, "payment_status": "no_payment_required"}, 0),
        ({"amount_subtotal": 0, "amount_total": 0}, 0),
        ({"amount_subtotal": 1, "amount_total": 1, "currency": "jpy"}, 0),
        ({"amount_subtotal": 1, "amount_total": 1}, 0),
        ({"amount_subtotal": 4_899, "amount_total": 4_899}, 0),
        ({"amount_subtotal": 7_350, "amount_total": 7_350}, 0),
        ({"currency": "mxn"}, 0),
        ({"currency": None}, 0),
        ({"amount_total": None}, 0),
        (OTHER_PRODUCT, 0),
        ({"metadata": {"price": "price_of_a_mug"}}, 0),
        ({"metadata": {"price": ["price_credit"]}}, 0),
        ({"metadata": None}, 0),
        ({"mode": "setup"}, 0),
    ],
)
def test_a_checkout_buys_as_many_audits_as_it_paid_for(
    deliver: Deliver, db_session: Session, account: Account, fields: dict[str, Any], credits: int
) -> None:
    document = stripe.checkout(client_reference_id=account.id, **fields)
    assert bought(deliver, db_session, document) == credits


@each_case(
    ("fields", "credits"),
    [
        ({}, 1),
        ({"quantity": 5, "total": "24500"}, 5),
        ({"total": "3920"}, 1),
        ({"total": "0"}, 0),
        ({"quantity": 0}, 0),
        ({"ware": "pri_of_a_mug"}, 0),
    ],
)
def test_a_transaction_buys_as_many_audits_as_it_paid_for(
    deliver: Deliver, db_session: Session, account: Account, fields: dict[str, Any], credits: int
) -> None:
    document = paddle.transaction(custom_data={"app_user_id": account.id}, **fields)
    assert bought(deliver, db_session, document) == credits


@pytest.mark.parametrize(
    ("app", "credits"),
    [
        ({"paddle_credit_amount": amount}, credits)
        for amount, credits in (("49 USD", 1), ("99 USD", 0), ("49 EUR", 0))
    ],
    indirect=["app"],
)
def test_a_transaction_at_another_amount_than_the_settings_have_buys_nothing(
    deliver: Deliver, db_session: Session, account: Account, credits: int
) -> None:
    document = paddle.transaction(custom_data={"app_user_id": account.id})
    assert bought(deliver, db_session, document) == credits


def test_a_payment_that_buys_nothing_is_logged(
    deliver: Deliver, account: Account, log: io.StringIO
) -> None:
    deliver(stripe.checkout(client_reference_id=account.id, **OTHER_PRODUCT))
    assert "price_unknown" in log.getvalue()


def test_several_credits_are_granted_once_and_revoked_together(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    five: dict[str, Any] = {
        "amount_subtotal": 24_500,
        "amount_total": 24_500,
        "payment_intent": "pi_1",
    }
    for _ in range(2):
        deliver(stripe.checkout(client_reference_id=account.id, **five))
    assert count_free_credits(db_session, account.id) == 5
    use_credit(db_session, account)
    deliver(stripe.refund("pi_1", created=stripe.START + MINUTE))
    assert count_free_credits(db_session, account.id) == 0
    used = db_session.scalars(select(Credit).where(Credit.audit_id.is_not(None))).all()
    assert len(used) == 1


def use_credit(session: Session, account: Account) -> Audit:
    audit = Audit(account_id=account.id, source="upload", blob_key="raw/x.jsonl")
    session.add(audit)
    session.flush()
    claim_credit(session, account.id, audit.id)
    session.commit()
    return audit


def dispute_at_stripe() -> list[dict[str, Any]]:
    return [
        stripe.checkout(client_reference_id="owner", payment_intent="pi_1"),
        stripe.dispute("pi_1", created=stripe.START + MINUTE),
        stripe.dispute("pi_1", status="won", created=stripe.START + 2 * MINUTE),
    ]


def dispute_at_paddle() -> list[dict[str, Any]]:
    return [
        paddle.transaction(id="txn_1", custom_data={"app_user_id": "owner"}),
        paddle.refund("txn_1", action="chargeback", minute=1),
        paddle.refund("txn_1", action="chargeback_reverse", minute=2),
    ]


# Paddle's library, which makes its events, takes a third of a second to import.
Dispute = Callable[[], list[dict[str, Any]]]
DISPUTES: Final[list[Dispute]] = [dispute_at_stripe, dispute_at_paddle]
each_dispute = pytest.mark.parametrize("dispute", DISPUTES, ids=["stripe", "paddle"])


@pytest.fixture
def owner(db_session: Session) -> Account:
    account = add_account(db_session, id="owner", email="owner@example.org")
    db_session.commit()
    return account


@each_dispute
def test_a_dispute_revokes_the_unused_credit_in_any_order_of_events(
    deliver: Deliver, db_session: Session, owner: Account, dispute: Dispute
) -> None:
    paid, disputed, _ = dispute()
    for pair in permutations((paid, disputed)):
        for document in pair:
            deliver(document)
        assert count_free_credits(db_session, owner.id) == 0
        assert state_of(db_session.scalars(select(Payment)).one()) == "disputed"


@each_dispute
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_dispute_that_the_seller_wins_restores_the_credit(
    deliver: Deliver, db_session: Session, owner: Account, dispute: Dispute, order: tuple[int, ...]
) -> None:
    events = dispute()
    for number in order:
        deliver(events[number])
    assert count_free_credits(db_session, owner.id) == 1
    assert state_of(db_session.scalars(select(Payment)).one()) == "paid"


def test_a_dispute_that_the_seller_loses_revokes_for_good(
    deliver: Deliver, db_session: Session, owner: Account
) -> None:
    paid, disputed, _ = dispute_at_stripe()
    lost = stripe.dispute("pi_1", status="lost", created=stripe.START + 2 * MINUTE)
    for document in (paid, disputed, lost):
        deliver(document)
    assert count_free_credits(db_session, owner.id) == 0


def test_a_credit_that_a_failed_audit_returns_is_revoked_during_a_dispute(
    deliver: Deliver, db_session: Session, owner: Account
) -> None:
    paid, disputed, won = dispute_at_stripe()
    deliver(paid)
    audit = use_credit(db_session, owner)
    deliver(disputed)
    assert return_credit(db_session.connection(), audit.id)
    assert count_free_credits(db_session, owner.id) == 0
    deliver(won)
    assert count_free_credits(db_session, owner.id) == 1


@each_case("setting", ["49", "0 USD", "0.00 USD", "49 usd", "-1 USD", "49 USD; 1 EUR"])
@each_case("provider", ["stripe", "paddle"])
def test_a_malformed_amount_stops_the_start(provider: str, setting: str) -> None:
    settings = {name.upper(): value for name, value in SETTINGS.items()}
    name = f"{provider.upper()}_CREDIT_AMOUNT"
    with pytest.raises(ConfigError, match=f"{name} must list amounts"):
        Config.from_environment({**REQUIRED, **settings, name: setting})
