"""Paddle's events: verified with its own library, and read into changes.

We use only the library's signature check. Its full verifier has an environment variable that turns
off the clock check, and it prints entities that it can't read.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

import msgspec
from paddle_billing.Notifications import PaddleSignature, Secret

from service.core.logs import get_logger
from service.models.billing.payments import CREDIT, PADDLE
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
)
from service.payments.prices import MAX_QUANTITY, PlanPrices
from service.payments.shapes import PricedItem, list_price_ids, rank_of, read_customer
from service.payments.signatures import check_signature, find_timestamp

_DISPUTES: Final = ("chargeback", "chargeback_warning")
_WON: Final = ("chargeback_reverse", "chargeback_warning_reverse")
_log = get_logger(__name__)

# All other kinds of events rank between these.
_KIND_RANKS: Final = {"created": 0, "imported": 0, "canceled": 3}
_CHANGES: Final = re.compile(
    "activated|canceled|created|imported|past_due|paused|resumed|trialing|updated"
)


class _Event(msgspec.Struct):
    event_id: str
    event_type: str
    occurred_at: datetime
    data: dict[str, Any] = {}


class _Totals(msgspec.Struct):
    total: str
    grand_total: str | None = None


class _Details(msgspec.Struct):
    totals: _Totals


class _Transaction(msgspec.Struct):
    id: str
    status: str
    items: list[PricedItem]
    currency_code: str
    details: _Details
    customer_id: str | None = None
    custom_data: Any = None


class _Subscription(msgspec.Struct):
    id: str
    status: str
    customer_id: str
    items: list[PricedItem]
    custom_data: Any = None


class _AdjustedItem(msgspec.Struct):
    type: str


class _Adjustment(msgspec.Struct):
    action: str
    transaction_id: str
    status: str
    items: list[_AdjustedItem] = []
    customer_id: str | None = None
    type: str | None = None  # missing in older events, where each item has a type


class Paddle:
    """The payment provider `paddle`."""

    name: ClassVar[str] = PADDLE
    signature_header: ClassVar[str] = "Paddle-Signature"

    def __init__(self, secrets: Sequence[str], prices: PlanPrices) -> None:
        self._secrets = secrets
        self._verifier = PaddleSignature()
        self._prices = prices
        # It logs every check, and we already log every event.
        logging.getLogger("paddle_billing").setLevel(logging.WARNING)

    def verify(self, body: bytes, signature: str) -> None:
        check_signature(
            self.name,
            self._secrets,
            lambda secret: self._verifier.verify(signature, body.decode("utf-8"), Secret(secret)),
            find_timestamp(signature, separator=";", name="ts"),
        )

    def read(self, document: dict[str, Any]) -> VerifiedEvent:
        event = convert(document, _Event)
        return VerifiedEvent(
            provider=self.name,
            event_id=event.event_id,
            type=event.event_type,
            occurred_at=to_time(event.occurred_at),
            payload=document,
            changes=self._changes(event.event_type, event.data),
        )

    def _changes(self, kind: str, data: Mapping[str, Any]) -> tuple[Change, ...]:
        match kind.split("."):
            case ["transaction", "paid" | "completed"]:
                return self._of_transaction(convert(data, _Transaction))
            case ["adjustment", "created" | "updated"]:
                adjustment = convert(data, _Adjustment)
                payer = Payer(customer_reference=adjustment.customer_id)
                if adjustment.action in (*_DISPUTES, *_WON) and adjustment.status == "approved":
                    is_won = adjustment.action in _WON
                    return (
                        PaymentDisputed(
                            reference=adjustment.transaction_id, payer=payer, is_won=is_won
                        ),
                    )
                is_whole = adjustment.type == "full" or (
                    adjustment.type is None and {item.type for item in adjustment.items} == {"full"}
                )
                if adjustment.action != "refund" or adjustment.status != "approved" or not is_whole:
                    return ()
                return (PaymentRefunded(reference=adjustment.transaction_id, payer=payer),)
            case ["customer", "created" | "updated" | "imported"]:
                return (read_customer(data),)
            case ["subscription", change] if _CHANGES.fullmatch(change):
                subscription = convert(data, _Subscription)
                return (
                    SubscriptionUpdated(
                        reference=subscription.id,
                        payer=_payer(subscription.customer_id, subscription.custom_data),
                        plan=self._prices.find_plan(list_price_ids(subscription.items)),
                        status=subscription.status,
                        rank=rank_of(_KIND_RANKS.get(change, 1), subscription.status),
                    ),
                )
        return ()

    def _of_transaction(self, transaction: _Transaction) -> tuple[Change, ...]:
        payer = _payer(transaction.customer_id, transaction.custom_data)
        purchase = self._prices.find_purchase(list_price_ids(transaction.items))
        quantity = self._count_audits(transaction)
        if purchase is None or (purchase[0] == CREDIT and not quantity):
            # Another product of the seller, or a price missing from the settings.
            _log.warning("price_unknown", provider=self.name, transaction=transaction.id)
            return (CustomerUpdated(payer=payer),)
        kind, plan = purchase
        totals = transaction.details.totals
        return (
            PaymentUpdated(
                reference=transaction.id,
                payer=payer,
                kind=kind,
                plan=plan,
                amount=_amount(totals.grand_total or totals.total, transaction.currency_code),
                currency=transaction.currency_code,
                quantity=quantity or 1,
                is_paid=transaction.status in ("paid", "completed"),
            ),
        )

    def _count_audits(self, transaction: _Transaction) -> int:
        """Return how many audits the transaction buys; 0 if it is free or costs something else."""
        total = _amount(transaction.details.totals.total, transaction.currency_code)
        items = [item for item in transaction.items if item.price.id in self._prices.credit]
        if not total:
            return 0
        for item in items if self._prices.credit_amounts else ():  # Paddle converts currencies
            price = item.price.unit_price
            amount = price and _amount(price.amount, price.currency_code)
            if price is None or not isinstance(amount, Decimal):
                return 0
            if self._prices.count_audits(amount, price.currency_code) != 1:
                return 0
        return min(sum(max(item.quantity or 0, 0) for item in items), MAX_QUANTITY)


def _payer(customer_id: str | None, custom_data: object) -> Payer:
    """Return the payer; custom data holds our reference, under the link's name or our own."""
    reference = find_text(custom_data, "app_user_id", "account_id")
    return Payer(account_id=reference, customer_reference=customer_id)


def _amount(minor: str, currency: str) -> Decimal | None:
    return to_amount(minor, currency) if minor.isascii() and minor.isdigit() else None
