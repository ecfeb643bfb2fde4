"""Payments that an administrator vouches for: by invoice, in cash, or given away."""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy.orm import Session

from service.models.base import utc_now
from service.models.billing.payments import (
    CREDIT,
    SUBSCRIPTION,
    Payment,
    find_payment,
    get_or_add_payment,
    lock_payments,
)
from service.models.identity.accounts import Subscription, find_account, find_subscription
from service.payments.owners import adopt_waiting, update_credit


@dataclass(frozen=True, kw_only=True)
class ManualPayment:
    """What was paid, checked by whoever asks. `plan` goes with the kind `subscription` alone."""

    email: str
    provider: str
    reference: str
    amount: Decimal
    currency: str
    kind: str = CREDIT
    plan: str | None = None


def mark_paid(session: Session, reported: ManualPayment) -> tuple[Payment, bool]:
    """The payment, and whether it is new: the same provider and reference twice are one payment.

    It is granted as any other: at once, or when its payer first signs in. The caller commits.
    """
    lock_payments(session)
    known = find_payment(session, reported.provider, reported.reference)
    if known is not None and known.paid_at is not None:
        return known, False
    payment = get_or_add_payment(session, reported.provider, reported.reference)
    payment.email = reported.email.strip().lower()
    payment.kind, payment.plan = reported.kind, reported.plan
    payment.amount, payment.currency = reported.amount, reported.currency
    payment.paid_at = utc_now()
    if reported.kind == SUBSCRIPTION:
        _activate(session, reported)
    update_credit(session, payment)
    account = find_account(session, payment.email)
    if account is not None:
        adopt_waiting(session, account)
    return payment, True


def _activate(session: Session, reported: ManualPayment) -> None:
    """Make the subscription of this reference an active one, as of now."""
    subscription = find_subscription(session, reported.provider, reported.reference)
    if subscription is None:
        subscription = Subscription(provider=reported.provider, reference=reported.reference)
        session.add(subscription)
    subscription.plan, subscription.status = reported.plan, "active"
    subscription.event_at, subscription.event_rank, subscription.event_id = utc_now(), 0, ""
