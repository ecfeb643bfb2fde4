"""Payments and subscriptions without an account, because their payer hasn't signed in yet."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from service.models.billing.payments import SUBSCRIPTION, Customer, Payment
from service.models.identity.accounts import Account, Subscription


def list_waiting_payments(session: Session, account: Account) -> Sequence[Payment]:
    """Return unassigned payments with this account's address, or of a customer with it."""
    paid_by_account = or_(Payment.email == account.email, _is_customer_of(account, Payment))
    unassigned = (Payment.account_id.is_(None), Payment.closed_at.is_(None))
    query = select(Payment).where(*unassigned, paid_by_account)
    return session.scalars(query.order_by(Payment.id)).all()


def list_waiting_subscriptions(session: Session, account: Account) -> Sequence[Subscription]:
    """Return unassigned subscriptions bought by this account or by a customer with its address."""
    bought = exists().where(
        Payment.provider == Subscription.provider,
        Payment.reference == Subscription.reference,
        Payment.kind == SUBSCRIPTION,
        Payment.account_id == account.id,
    )
    query = select(Subscription).where(
        Subscription.account_id.is_(None), or_(bought, _is_customer_of(account, Subscription))
    )
    return session.scalars(query.order_by(Subscription.id)).all()


def may_know_address(session: Session, customer: Customer, email: str) -> bool:
    """Check whether a customer's address may be stored.

    After its account was deleted, the payment provider may still send it: then only for a new
    account with this address, or for a new payment that waits for its payer to sign in.
    """
    if customer.forgotten_at is None:
        return True
    bought = exists().where(
        Payment.provider == customer.provider,
        Payment.customer_reference == customer.reference,
        Payment.account_id.is_(None),
        Payment.closed_at.is_(None),
    )
    return bool(session.scalar(select(bought | exists().where(Account.email == email))))


def _is_customer_of(
    account: Account, table: type[Payment] | type[Subscription]
) -> ColumnElement[bool]:
    return exists().where(
        Customer.provider == table.provider,
        Customer.reference == table.customer_reference,
        Customer.email == account.email,
    )
