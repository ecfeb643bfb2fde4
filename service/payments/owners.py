"""Assign payments and subscriptions to accounts, and grant what they buy."""

from datetime import datetime

from sqlalchemy.orm import Session

from service.models.billing.credits import grant_credits, revoke_credits
from service.models.billing.payments import (
    CREDIT,
    Payment,
    get_or_add_customer,
    list_waiting_payments,
    list_waiting_subscriptions,
    lock_payments,
    may_know_address,
)
from service.models.identity.accounts import Account, find_account
from service.payments.events import Payer


def adopt_payments(session: Session, account: Account) -> None:
    """Assign waiting payments to the account at sign-in. Repeatable; the caller commits.

    Don't lock the account's row FOR UPDATE: an event that holds the payments lock waits for it.
    """
    session.flush()
    lock_payments(session)
    adopt_waiting(session, account)


def adopt_waiting(session: Session, account: Account) -> None:
    """Assign waiting payments and subscriptions to the account; requires the payments lock."""
    for payment in list_waiting_payments(session, account):
        payment.account_id = account.id
        update_credits(session, payment)
    session.flush()  # a subscription is also found by the payment that bought it
    for subscription in list_waiting_subscriptions(session, account):
        subscription.account_id = account.id
    session.flush()


def update_credits(session: Session, payment: Payment) -> None:
    """Grant the credits that a payment buys, or revoke them after a refund or in a dispute."""
    session.flush()  # a refund is written before its credits are locked; see `return_credit`
    if payment.kind != CREDIT or payment.account_id is None or payment.paid_at is None:
        return
    if payment.is_withdrawn:
        revoke_credits(session, payment.id)
    else:
        grant_credits(session, payment.account_id, payment.id, payment.quantity)


def find_referenced_account(session: Session, payer: Payer) -> Account | None:
    """Return the account in our reference, if there is one."""
    return session.get(Account, payer.account_id) if payer.account_id else None


def record_payer(session: Session, provider: str, payer: Payer, event_at: datetime) -> None:
    """Store the customer's address, and assign waiting payments to the payer's account."""
    emails = {payer.email}
    if payer.customer_reference is not None:
        customer = get_or_add_customer(session, provider, payer.customer_reference)
        is_latest = customer.email_at is None or customer.email_at <= event_at
        if payer.email and is_latest and may_know_address(session, customer, payer.email):
            customer.email, customer.email_at = payer.email, event_at
        session.flush()
        emails.add(customer.email)
    addressed = (find_account(session, email) for email in sorted(filter(None, emails)))
    for account in (find_referenced_account(session, payer), *addressed):
        if account is not None:
            adopt_waiting(session, account)
