"""Stripe's events: verified with its own library, and read into changes.

We use only the library's signature check, which makes no network requests.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec
from stripe import WebhookSignature

from service.core.logs import get_logger
from service.models.billing.payments import CREDIT, STRIPE, SUBSCRIPTION
from service.payments.documents import convert, find_text, to_amount, to_time
from service.payments.events import (
    Change,
    CustomerUpdated,
    Payer,
    PaymentDisputed,
    PaymentRefunded,
    PaymentUpdated,
    SubscriptionUpdated,
    VerifiedEvent,
    clean_email,
)
from service.payments.prices import MAX_QUANTITY, PlanPrices
from service.payments.shapes import PricedItem, list_price_ids, rank_of, read_customer
from service.payments.signatures import TOLERANCE_SECONDS, check_signature, find_timestamp

# A dispute that its bank closed in the seller's favor; the second was an inquiry only.
_WON: Final = ("won", "warning_closed")
_log = get_logger(__name__)

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
    amount_subtotal: int | None = None  # before discounts and taxes
    amount_total: int | None = None
    currency: str | None = None
    metadata: dict[str, Any] | None = None
    payment_link: str | None = None


class _Charge(msgspec.Struct):
    refunded: bool
    payment_intent: str | None = None
    customer: str | None = None


class _Dispute(msgspec.Struct):
    status: str
    payment_intent: str | None = None


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

    def __init__(self, secrets: Sequence[str], prices: PlanPrices) -> None:
        self._secrets = secrets
        self._prices = prices

    def verify(self, body: bytes, signature: str) -> None:
        check_signature(
            self.name,
            self._secrets,
            # Its clock check accepts any time in the future; ours doesn't.
            lambda secret: WebhookSignature.verify_header(
                body, signature, secret, TOLERANCE_SECONDS
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
                charge = convert(data, _Charge)
                if not charge.refunded or charge.payment_intent is None:
                    return ()
                payer = Payer(customer_reference=charge.customer)
                return (PaymentRefunded(reference=charge.payment_intent, payer=payer),)
            case ["charge", "dispute", "created" | "closed" as change]:
                dispute = convert(data, _Dispute)
                is_won = change == "closed" and dispute.status in _WON
                if dispute.payment_intent is None or (change == "closed" and not is_won):
                    return ()
                return (
                    PaymentDisputed(reference=dispute.payment_intent, payer=Payer(), is_won=is_won),
                )
            case ["customer", "created" | "updated"]:
                return (read_customer(data),)
            case ["customer", "subscription", change] if change in _KIND_RANKS:
                subscription = convert(data, _Subscription)
                status = "canceled" if change == "deleted" else subscription.status
                return (
                    SubscriptionUpdated(
                        reference=subscription.id,
                        payer=Payer(customer_reference=subscription.customer),
                        plan=self._prices.find_plan(list_price_ids(subscription.items.data)),
                        status=status,
                        rank=rank_of(_KIND_RANKS[change], status),
                    ),
                )
        return ()

    def _of_checkout(self, checkout: _CheckoutSession) -> tuple[Change, ...]:
        details = checkout.customer_details
        payer = Payer(
            account_id=checkout.client_reference_id,
            customer_reference=checkout.customer,
            email=clean_email((details and details.email) or checkout.customer_email),
        )
        quantity = self._count_audits(checkout)
        if checkout.mode == "subscription" and checkout.subscription:
            reference, kind = checkout.subscription, SUBSCRIPTION
        elif checkout.mode == "payment" and quantity:
            reference, kind = checkout.payment_intent or checkout.id, CREDIT
        else:
            # Another product of the seller, or a price missing from the settings.
            _log.warning("price_unknown", provider=self.name, checkout=checkout.id)
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
                quantity=quantity or 1,
                is_paid=checkout.payment_status in ("paid", "no_payment_required"),
            ),
        )

    def _count_audits(self, checkout: _CheckoutSession) -> int:
        """Return how many audits the checkout buys; 0 for another product or a wrong amount.

        Its event has neither price nor quantity. So the payment link must be one of ours, by its ID
        or the price in its metadata, and the quantity follows from the amount before discounts.
        """
        is_ours = (
            checkout.payment_link in self._prices.credit_links
            or find_text(checkout.metadata, "price") in self._prices.credit
        )
        if not is_ours or not checkout.amount_total:
            return 0
        currency = (checkout.currency or "").upper()
        listed = checkout.amount_subtotal
        price = checkout.amount_total if listed is None else listed
        return min(self._prices.count_audits(to_amount(price, currency), currency), MAX_QUANTITY)
