"""Payments that an administrator confirms: by invoice, in cash, or gifts."""

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
from service.payments.owners import adopt_waiting, update_credits


@dataclass(frozen=True, kw_only=True)
class ManualPayment:
    """A payment validated by the caller. `plan` is set only for the kind `subscription`."""

    email: str
    provider: str
    reference: str
    amount: Decimal
    currency: str
    kind: str = CREDIT
    plan: str | None = None


def mark_paid(session: Session, manual: ManualPayment) -> tuple[Payment, bool]:
    """Record the payment; return it and whether its provider and reference are new.

    Like any payment, it is granted immediately, or when its payer first signs in. The caller
    commits.
    """
    lock_payments(session)
    known = find_payment(session, manual.provider, manual.reference)
    if known is not None and known.paid_at is not None:
        return known, False
    payment = get_or_add_payment(session, manual.provider, manual.reference)
    payment.email = manual.email.strip().lower()
    payment.kind, payment.plan = manual.kind, manual.plan
    payment.amount, payment.currency = manual.amount, manual.currency
    payment.paid_at = utc_now()
    if manual.kind == SUBSCRIPTION:
        # Activate the subscription with this reference, as of now.
        subscription = find_subscription(session, manual.provider, manual.reference)
        if subscription is None:
            subscription = Subscription(provider=manual.provider, reference=manual.reference)
            session.add(subscription)
        subscription.plan, subscription.status = manual.plan, "active"
        subscription.event_at, subscription.event_rank, subscription.event_id = utc_now(), 0, ""
    update_credits(session, payment)
    account = find_account(session, payment.email)
    if account is not None:
        adopt_waiting(session, account)
    return payment, True
