"""What was paid for and belongs to nobody yet, because its payer has not signed in."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from service.models.billing.payments import SUBSCRIPTION, Customer, Payment
from service.models.identity.accounts import Account, Subscription


def list_waiting_payments(session: Session, account: Account) -> Sequence[Payment]:
    """The payments of nobody that came with this account's address, or of a customer who has it."""
    paid_by_account = or_(Payment.email == account.email, _is_customer_of(account, Payment))
    nobodys = (Payment.account_id.is_(None), Payment.closed_at.is_(None))
    query = select(Payment).where(*nobodys, paid_by_account)
    return session.scalars(query.order_by(Payment.id)).all()


def list_waiting_subscriptions(session: Session, account: Account) -> Sequence[Subscription]:
    """The subscriptions of nobody that this account bought, or a customer who has its address."""
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


def _is_customer_of(
    account: Account, told: type[Payment] | type[Subscription]
) -> ColumnElement[bool]:
    return exists().where(
        Customer.provider == told.provider,
        Customer.reference == told.customer_reference,
        Customer.email == account.email,
    )
