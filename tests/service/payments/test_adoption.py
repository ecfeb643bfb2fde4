"""Payments are assigned by our reference, or else by address, or wait for the first sign-in."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.core import tokens
from service.models import Account, Credit, Payment, Subscription
from service.models.billing.credits import count_free_credits
from service.models.identity.sign_in import add_magic_link
from service.payments import ManualPayment, adopt_payments, mark_paid
from service.payments.events import (
    Change,
    CustomerUpdated,
    Payer,
    PaymentRefunded,
    PaymentUpdated,
    SubscriptionUpdated,
    VerifiedEvent,
)
from service.payments.recording import record_event
from tests.service.support.scenes import SECRET_KEY

START = datetime(2026, 3, 1, tzinfo=UTC)


def tell(session: Session, change: Change, *, minute: int = 0, event_id: str = "") -> bool:
    return record_event(
        session,
        VerifiedEvent(
            provider="stripe",
            event_id=event_id or f"evt_{minute}_{type(change).__name__}",
            type="sent",
            occurred_at=START + timedelta(minutes=minute),
            payload={},
            changes=(change,),
        ),
    )


def sign_up(session: Session, email: str = "payer@example.org") -> Account:
    account = Account(email=email)
    session.add(account)
    adopt_payments(session, account)
    return account


def paid(reference: str = "pi_1", **payer: str) -> PaymentUpdated:
    return PaymentUpdated(reference=reference, kind="credit", payer=Payer(**payer))


def subscribed(reference: str = "sub_1", **payer: str) -> SubscriptionUpdated:
    reported = Payer(customer_reference="cus_1", **payer)
    return SubscriptionUpdated(
        reference=reference, payer=reported, plan="pro", status="active", rank=0
    )


def test_a_payment_with_our_reference_belongs_to_the_account_regardless_of_its_address(
    db_session: Session,
) -> None:
    referred, addressed = sign_up(db_session, "a@example.org"), sign_up(db_session, "b@example.org")
    tell(db_session, paid(account_id=referred.id, email=addressed.email))
    assert count_free_credits(db_session, referred.id) == 1
    assert count_free_credits(db_session, addressed.id) == 0
    # A reference that names no account leaves the address to decide.
    tell(db_session, paid("pi_2", account_id="0" * 32, email=addressed.email), minute=1)
    assert count_free_credits(db_session, addressed.id) == 1


def test_a_payment_for_oneself_in_anothers_name_takes_nothing_of_the_others(
    db_session: Session,
) -> None:
    """Anyone can type another's address at the checkout, which files it as that customer's."""
    thief = sign_up(db_session, "thief@example.org")
    other = {"customer_reference": "cus_1", "email": "payer@example.org"}
    tell(db_session, paid("pi_1", account_id=thief.id, **other))
    tell(db_session, paid("pi_2", customer_reference="cus_1"), minute=1)
    tell(db_session, subscribed(), minute=2)
    payer = sign_up(db_session)
    db_session.expire_all()
    assert count_free_credits(db_session, thief.id) == 1
    assert count_free_credits(db_session, payer.id) == 1
    assert (thief.plan, payer.plan) == ("free", "pro")


@pytest.mark.parametrize("is_known_first", [True, False])
def test_a_customers_address_is_enough_in_either_order(
    db_session: Session, is_known_first: bool
) -> None:
    account = sign_up(db_session)
    customer = CustomerUpdated(payer=Payer(customer_reference="cus_1", email=account.email))
    changes: list[Change] = [customer, paid(customer_reference="cus_1"), subscribed()]
    for minute, change in enumerate(changes if is_known_first else reversed(changes)):
        tell(db_session, change, minute=minute)
    db_session.expire_all()
    assert count_free_credits(db_session, account.id) == 1
    assert account.plan == "pro"


def test_the_latest_of_two_addresses_of_a_customer_counts(db_session: Session) -> None:
    older, newer = (
        sign_up(db_session, "older@example.org"),
        sign_up(db_session, "newer@example.org"),
    )
    for minute, account in ((5, newer), (1, older)):
        payer = Payer(customer_reference="cus_1", email=account.email)
        tell(db_session, CustomerUpdated(payer=payer), minute=minute)
    tell(db_session, paid(customer_reference="cus_1"))
    assert count_free_credits(db_session, newer.id) == 1
    assert count_free_credits(db_session, older.id) == 0


@pytest.mark.parametrize("is_bought_first", [True, False])
def test_the_checkout_identifies_the_owner_of_its_subscription(
    db_session: Session, is_bought_first: bool
) -> None:
    account = sign_up(db_session, "another-address@example.org")
    checkout = PaymentUpdated(
        reference="sub_1", kind="subscription", payer=Payer(account_id=account.id)
    )
    changes: list[Change] = [checkout, subscribed()]
    for minute, change in enumerate(changes if is_bought_first else reversed(changes)):
        tell(db_session, change, minute=minute)
    db_session.expire_all()
    assert account.plan == "pro"
    assert count_free_credits(db_session, account.id) == 0


def test_what_is_paid_before_the_first_sign_in_waits_for_it(db_session: Session) -> None:
    payer = Payer(email="payer@example.org")
    tell(db_session, PaymentUpdated(reference="sub_1", kind="subscription", payer=payer))
    tell(db_session, subscribed())
    tell(db_session, paid(email="payer@example.org"))
    tell(db_session, PaymentRefunded(reference="pi_1", payer=Payer()))
    mark_paid(db_session, manual(provider="comp", amount=Decimal(0)))
    account = sign_up(db_session)
    db_session.expire_all()
    assert account.plan == "pro"
    assert count_free_credits(db_session, account.id) == 1  # the gift


@pytest.mark.parametrize("is_paid_first", [True, False])
def test_a_refund_takes_the_unused_credit_back_in_either_order(
    db_session: Session, is_paid_first: bool
) -> None:
    account = sign_up(db_session)
    refund = PaymentRefunded(reference="pi_1", payer=Payer())
    changes: list[Change] = [paid(email=account.email), refund]
    for change in changes if is_paid_first else reversed(changes):
        tell(db_session, change)
    assert count_free_credits(db_session, account.id) == 0
    adopt_payments(db_session, account)
    assert count_free_credits(db_session, account.id) == 0


def manual(**fields: object) -> ManualPayment:
    reported = {
        "email": "Payer@Example.org",
        "provider": "invoice",
        "reference": "2026-17",
        "amount": Decimal(49),
        "currency": "EUR",
        **fields,
    }
    return ManualPayment(**reported)  # type: ignore[arg-type]


def test_what_is_marked_as_paid_twice_is_one_credit(db_session: Session) -> None:
    account = sign_up(db_session)
    first, is_new = mark_paid(db_session, manual())
    again, is_new_again = mark_paid(db_session, manual(amount=Decimal(1)))
    assert (first.id, is_new, is_new_again) == (again.id, True, False)
    assert again.amount == 49
    assert count_free_credits(db_session, account.id) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_a_subscription_that_is_marked_as_paid_is_active(
    db_session: Session, is_known: bool
) -> None:
    account = sign_up(db_session) if is_known else None
    for _ in range(2):
        mark_paid(db_session, manual(kind="subscription", plan="team"))
    account = account or sign_up(db_session)
    db_session.expire_all()
    assert account.plan == "team"
    assert db_session.scalar(select(func.count()).select_from(Subscription)) == 1
    assert db_session.scalar(select(func.count()).select_from(Payment)) == 1
    assert db_session.scalar(select(func.count()).select_from(Credit)) == 0


def test_a_payment_recorded_manually_and_by_its_provider_is_one_credit(db_session: Session) -> None:
    account = sign_up(db_session)
    mark_paid(db_session, manual(provider="stripe", reference="pi_1"))
    tell(db_session, paid(account_id=account.id))
    assert count_free_credits(db_session, account.id) == 1


def test_the_first_sign_in_by_a_link_brings_what_waited(
    client: FlaskClient, db_session: Session
) -> None:
    email = "waiting@example.org"
    tell(db_session, paid(email=email))
    link = add_magic_link(db_session, email, SECRET_KEY, minutes=15, next_path=None)
    db_session.commit()
    secret, _hash = tokens.derive(tokens.Kind.MAGIC_LINK, SECRET_KEY, link.id)
    assert client.post("/auth/verify", json={"token": secret}).status_code == 200
    account = db_session.scalars(select(Account).where(Account.email == email)).one()
    assert count_free_credits(db_session, account.id) == 1
