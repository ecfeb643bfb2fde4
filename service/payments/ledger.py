"""What events tell of payments, made into credits and subscriptions.

All of it happens in the caller's transaction, which the caller commits, and comes to the same end
in whatever order it is told: every row says what is so by the provider's own times.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from service.core.logs import get_logger
from service.models.billing.payments import (
    SUBSCRIPTION,
    PaymentEvent,
    add_event,
    find_payment,
    get_or_add_payment,
    lock_ledger,
)
from service.models.identity.accounts import Subscription, find_subscription
from service.payments.facts import (
    Fact,
    PaymentRefunded,
    PaymentTold,
    SubscriptionTold,
    VerifiedEvent,
)
from service.payments.owners import find_referred, note_payer, settle

_log = get_logger(__name__)


def record_event(session: Session, event: VerifiedEvent) -> bool:
    """Keep the event and do what it tells; False, and nothing done, for one that came before.

    One transaction does both: a crash in between leaves neither, and the provider tells it again.
    """
    if not add_event(session, _as_row(event)):
        return False
    if event.facts:
        lock_ledger(session)
    for fact in event.facts:
        _apply(session, event, fact)
        note_payer(session, event.provider, fact.payer, event.occurred_at)
    return True


def _as_row(event: VerifiedEvent) -> PaymentEvent:
    return PaymentEvent(
        provider=event.provider,
        event_id=event.event_id,
        type=event.type,
        occurred_at=event.occurred_at,
        payload=dict(event.payload),
    )


def _apply(session: Session, event: VerifiedEvent, fact: Fact) -> None:
    match fact:
        case PaymentTold():
            _note_payment(session, event, fact)
        case PaymentRefunded():
            _note_refund(session, event, fact)
        case SubscriptionTold():
            _note_subscription(session, event, fact)


def _note_payment(session: Session, event: VerifiedEvent, told: PaymentTold) -> None:
    payment = get_or_add_payment(session, event.provider, told.reference)
    if told.is_paid or payment.kind is None:
        payment.kind, payment.plan = told.kind, told.plan
        payment.amount, payment.currency = told.amount, told.currency
    if told.is_paid:
        payment.paid_at = min(payment.paid_at or event.occurred_at, event.occurred_at)
    if payment.closed_at is not None:
        return
    payment.email = payment.email or told.payer.email
    payment.customer_reference = payment.customer_reference or told.payer.customer_reference
    referred = find_referred(session, told.payer)
    if referred is not None:
        payment.account_id = payment.account_id or referred.id
        _own_subscription(session, payment.provider, payment.reference, referred.id)
    settle(session, payment)


def _own_subscription(session: Session, provider: str, reference: str, account_id: str) -> None:
    """Our reference is surer than whatever address the subscription was matched by before."""
    subscription = find_subscription(session, provider, reference)
    if subscription is not None:
        subscription.account_id = account_id


def _note_refund(session: Session, event: VerifiedEvent, told: PaymentRefunded) -> None:
    payment = get_or_add_payment(session, event.provider, told.reference)
    payment.refunded_at = min(payment.refunded_at or event.occurred_at, event.occurred_at)
    payment.customer_reference = payment.customer_reference or told.payer.customer_reference
    settle(session, payment)


def _note_subscription(session: Session, event: VerifiedEvent, told: SubscriptionTold) -> None:
    if told.plan is None:
        # Something else that is sold there, or a price that the settings have forgotten.
        _log.warning("price_unknown", provider=event.provider, event_id=event.event_id)
    subscription = find_subscription(session, event.provider, told.reference)
    version = (event.occurred_at, told.rank, event.event_id)
    is_new = subscription is None
    if subscription is None:
        subscription = Subscription(provider=event.provider, reference=told.reference)
        session.add(subscription)
    if is_new or version > _version_of(subscription):
        subscription.plan, subscription.status = told.plan, told.status
        subscription.event_at, subscription.event_rank, subscription.event_id = version
    subscription.customer_reference = (
        subscription.customer_reference or told.payer.customer_reference
    )
    subscription.account_id = subscription.account_id or _find_buyer(session, event.provider, told)


def _version_of(subscription: Subscription) -> tuple[datetime, int, str]:
    return subscription.event_at, subscription.event_rank, subscription.event_id


def _find_buyer(session: Session, provider: str, told: SubscriptionTold) -> str | None:
    """Whoever our reference names, here or in the payment that bought the subscription."""
    referred = find_referred(session, told.payer)
    if referred is not None:
        return referred.id
    payment = find_payment(session, provider, told.reference)
    return payment.account_id if payment and payment.kind == SUBSCRIPTION else None
