"""Stripe's events: verified with its own library, and read into changes.

We use only the library's signature check, which makes no network requests.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec
from stripe import WebhookSignature

from service.models.billing.payments import CREDIT, STRIPE, SUBSCRIPTION
from service.payments.documents import convert, find_text, to_amount, to_time
from service.payments.events import (
    Change,
    CustomerUpdated,
    Payer,
    PaymentRefunded,
    PaymentUpdated,
    SubscriptionUpdated,
    VerifiedEvent,
    clean_email,
)
from service.payments.prices import Prices
from service.payments.shapes import PricedItem, list_price_ids, rank_of, read_customer
from service.payments.signatures import TOLERANCE_SECONDS, check_signature, find_timestamp

_KIND_RANKS: Final = {"created": 0, "updated": 1, "paused": 2, "resumed": 2, "deleted": 3}


class _Data(msgspec.Struct):
    object: dict[str, Any] = {}


class _Event(msgspec.Struct):
    id: str
    type: str
    created: int | datetime  # a string in newer kinds of events, which we don't read
    data: _Data = msgspec.field(default_factory=_Data)


class _CustomerDetails(msgspec.Struct):
    email: str | None = None


class _CheckoutSession(msgspec.Struct):
    id: str
    mode: str
    payment_status: str
    payment_intent: str | None = None
    subscription: str | None = None
    customer: str | None = None
    client_reference_id: str | None = None
    customer_details: _CustomerDetails | None = None
    customer_email: str | None = None
    amount_total: int | None = None
    currency: str | None = None
    metadata: dict[str, Any] | None = None


class _Charge(msgspec.Struct):
    refunded: bool
    payment_intent: str | None = None
    customer: str | None = None


class _Items(msgspec.Struct):
    data: list[PricedItem]


class _Subscription(msgspec.Struct):
    id: str
    status: str
    items: _Items
    customer: str | None = None


class Stripe:
    """The payment provider `stripe`."""

    name: ClassVar[str] = STRIPE
    signature_header: ClassVar[str] = "Stripe-Signature"

    def __init__(self, secret: str, prices: Prices) -> None:
        self._secret = secret
        self._prices = prices

    def verify(self, body: bytes, signature: str) -> None:
        check_signature(
            self.name,
            # Its clock check accepts any time in the future; ours doesn't.
            lambda: WebhookSignature.verify_header(
                body, signature, self._secret, TOLERANCE_SECONDS
            ),
            find_timestamp(signature, separator=",", name="t"),
        )

    def read(self, document: dict[str, Any]) -> VerifiedEvent:
        event = convert(document, _Event)
        return VerifiedEvent(
            provider=self.name,
            event_id=event.id,
            type=event.type,
            occurred_at=to_time(event.created),
            payload=document,
            changes=self._changes(event.type, event.data.object),
        )

    def _changes(self, kind: str, data: Mapping[str, Any]) -> tuple[Change, ...]:
        match kind.split("."):
            case ["checkout", "session", "completed" | "async_payment_succeeded"]:
                return self._of_checkout(convert(data, _CheckoutSession))
            case ["charge", "refunded"]:
                return _of_charge(convert(data, _Charge))
            case ["customer", "created" | "updated"]:
                return (read_customer(data),)
            case ["customer", "subscription", change] if change in _KIND_RANKS:
                return (self._of_subscription(change, convert(data, _Subscription)),)
        return ()

    def _of_checkout(self, checkout: _CheckoutSession) -> tuple[Change, ...]:
        payer = _payer_of(checkout)
        if checkout.mode == "subscription" and checkout.subscription:
            reference, kind = checkout.subscription, SUBSCRIPTION
        elif checkout.mode == "payment" and self._is_for_credit(checkout):
            reference, kind = checkout.payment_intent or checkout.id, CREDIT
        else:
            return (CustomerUpdated(payer=payer),)
        currency = (checkout.currency or "").upper() or None
        amount = checkout.amount_total
        return (
            PaymentUpdated(
                reference=reference,
                payer=payer,
                kind=kind,
                amount=None if amount is None else to_amount(amount, currency or ""),
                currency=currency,
                is_paid=checkout.payment_status in ("paid", "no_payment_required"),
            ),
        )

    def _is_for_credit(self, checkout: _CheckoutSession) -> bool:
        """Check the price; a checkout has none, but its link's metadata may have a `price`."""
        price = find_text(checkout.metadata, "price")
        return price is None or price in self._prices.credit

    def _of_subscription(self, change: str, subscription: _Subscription) -> SubscriptionUpdated:
        status = "canceled" if change == "deleted" else subscription.status
        return SubscriptionUpdated(
            reference=subscription.id,
            payer=Payer(customer_reference=subscription.customer),
            plan=self._prices.find_plan(list_price_ids(subscription.items.data)),
            status=status,
            rank=rank_of(_KIND_RANKS[change], status),
        )


def _payer_of(checkout: _CheckoutSession) -> Payer:
    details = checkout.customer_details
    return Payer(
        account_id=checkout.client_reference_id,
        customer_reference=checkout.customer,
        email=clean_email((details and details.email) or checkout.customer_email),
    )


def _of_charge(charge: _Charge) -> tuple[Change, ...]:
    """Return the change of a full refund; partial refunds change nothing."""
    if not charge.refunded or charge.payment_intent is None:
        return ()
    payer = Payer(customer_reference=charge.customer)
    return (PaymentRefunded(reference=charge.payment_intent, payer=payer),)
