"""Record payment events and update credits and subscriptions.

Everything happens in the caller's transaction. The result does not depend on the order of events:
rows are updated by the payment provider's own timestamps.
"""

from typing import Any

from sqlalchemy.orm import Session

from service.core.logs import get_logger
from service.models.billing.payments import (
    SUBSCRIPTION,
    PaymentEvent,
    add_event,
    find_payment,
    get_or_add_payment,
    lock_payments,
)
from service.models.identity.accounts import Subscription, find_subscription
from service.payments.events import (
    Change,
    PaymentDisputed,
    PaymentRefunded,
    PaymentUpdated,
    SubscriptionUpdated,
    VerifiedEvent,
)
from service.payments.owners import find_referenced_account, record_payer, update_credits

_log = get_logger(__name__)


def record_event(session: Session, event: VerifiedEvent) -> bool:
    """Store the event and apply its changes; do nothing and return False for a repeated event.

    Both share one transaction: after a crash neither happened, and the provider sends it again.
    """
    row = PaymentEvent(
        provider=event.provider,
        event_id=event.event_id,
        type=event.type,
        occurred_at=event.occurred_at,
        payload=dict(event.payload),
    )
    if not add_event(session, row):
        return False
    if event.changes:
        lock_payments(session)
    for change in event.changes:
        _apply(session, event, change)
        record_payer(session, event.provider, change.payer, event.occurred_at)
    return True


def _apply(session: Session, event: VerifiedEvent, change: Change) -> None:
    at = event.occurred_at
    match change:
        case PaymentUpdated():
            _record_payment(session, event, change)
        case PaymentRefunded():
            payment = get_or_add_payment(session, event.provider, change.reference)
            payment.refunded_at = min(payment.refunded_at or at, at)
            payment.customer_reference = (
                payment.customer_reference or change.payer.customer_reference
            )
            update_credits(session, payment)
        case PaymentDisputed():
            payment = get_or_add_payment(session, event.provider, change.reference)
            if change.is_won:
                payment.dispute_won_at = max(payment.dispute_won_at or at, at)
            else:
                payment.disputed_at = max(payment.disputed_at or at, at)
            update_credits(session, payment)
        case SubscriptionUpdated():
            if change.plan is None:
                # Another product of the seller, or a price missing from the settings.
                _log.warning("price_unknown", provider=event.provider, event_id=event.event_id)
            subscription = find_subscription(session, event.provider, change.reference)
            version = (at, change.rank, event.event_id)
            known: tuple[Any, ...] = ()
            if subscription is not None:
                known = (subscription.event_at, subscription.event_rank, subscription.event_id)
            else:
                subscription = Subscription(provider=event.provider, reference=change.reference)
                session.add(subscription)
            if version > known:
                subscription.plan, subscription.status = change.plan, change.status
                subscription.event_at, subscription.event_rank, subscription.event_id = version
            subscription.customer_reference = (
                subscription.customer_reference or change.payer.customer_reference
            )
            # Our reference names the account, here or in the subscription's payment.
            if subscription.account_id is None:
                buyer = find_referenced_account(session, change.payer)
                first = find_payment(session, event.provider, change.reference)
                if buyer is not None:
                    subscription.account_id = buyer.id
                elif first is not None and first.kind == SUBSCRIPTION:
                    subscription.account_id = first.account_id


def _record_payment(session: Session, event: VerifiedEvent, change: PaymentUpdated) -> None:
    payment = get_or_add_payment(session, event.provider, change.reference)
    if change.is_paid or payment.kind is None:
        payment.kind, payment.plan = change.kind, change.plan
        payment.amount, payment.currency = change.amount, change.currency
        payment.quantity = change.quantity
    if change.is_paid:
        payment.paid_at = min(payment.paid_at or event.occurred_at, event.occurred_at)
    if payment.closed_at is not None:
        return
    payment.email = payment.email or change.payer.email
    payment.customer_reference = payment.customer_reference or change.payer.customer_reference
    referred = find_referenced_account(session, change.payer)
    if referred is not None:
        payment.account_id = payment.account_id or referred.id
        # Our reference outranks a match by address.
        subscription = find_subscription(session, payment.provider, payment.reference)
        if subscription is not None:
            subscription.account_id = referred.id
    update_credits(session, payment)
