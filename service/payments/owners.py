"""Whose a payment or a subscription is, and what becomes of it once that is known."""

from datetime import datetime

from sqlalchemy.orm import Session

from service.models.billing.credits import grant_credit, revoke_credit
from service.models.billing.payments import (
    CREDIT,
    Payment,
    get_or_add_customer,
    lock_payments,
)
from service.models.billing.waiting import list_waiting_payments, list_waiting_subscriptions
from service.models.identity.accounts import Account, find_account
from service.payments.events import Payer


def adopt_payments(session: Session, account: Account) -> None:
    """Give the account what waited for its first sign-in. Harmless to repeat; the caller commits.

    Do not lock the account row FOR UPDATE: an event that holds the payments lock waits for it.
    """
    session.flush()
    lock_payments(session)
    adopt_waiting(session, account)


def adopt_waiting(session: Session, account: Account) -> None:
    """The same, for a caller that holds the payments lock."""
    for payment in list_waiting_payments(session, account):
        payment.account_id = account.id
        update_credit(session, payment)
    session.flush()  # a subscription is also found by the payment that bought it
    for subscription in list_waiting_subscriptions(session, account):
        subscription.account_id = account.id
    session.flush()


def update_credit(session: Session, payment: Payment) -> None:
    """Grant the credit that a payment buys, or take back what was refunded."""
    session.flush()  # a refund is noted before its credit is asked for; see `return_credit`
    if payment.kind != CREDIT or payment.account_id is None or payment.paid_at is None:
        return
    if payment.refunded_at is None:
        grant_credit(session, payment.account_id, payment.id)
    else:
        revoke_credit(session, payment.id)


def find_referred(session: Session, payer: Payer) -> Account | None:
    """The account that our reference names, if it names one."""
    return session.get(Account, payer.account_id) if payer.account_id else None


def note_payer(session: Session, provider: str, payer: Payer, told_at: datetime) -> None:
    """Remember what is told of a customer, and give whoever this is what has waited for it."""
    emails = {payer.email, _note_customer(session, provider, payer, told_at)}
    addressed = (find_account(session, email) for email in sorted(filter(None, emails)))
    for account in (find_referred(session, payer), *addressed):
        if account is not None:
            adopt_waiting(session, account)


def _note_customer(session: Session, provider: str, payer: Payer, told_at: datetime) -> str | None:
    """The address of a customer. Of several it is the one that was told last."""
    if payer.customer_reference is None:
        return None
    customer = get_or_add_customer(session, provider, payer.customer_reference)
    if payer.email and (customer.email_at is None or customer.email_at <= told_at):
        customer.email, customer.email_at = payer.email, told_at
    session.flush()
    return customer.email
