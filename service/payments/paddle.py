"""Paddle's events: verified by its own library, and read into changes.

Of the library only the signature check is used. Its whole verifier would let an environment
variable switch the clock check off, and it reads entities by printing what it cannot read.
"""

import logging
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

import msgspec
from paddle_billing.Notifications import PaddleSignature, Secret

from service.models.billing.payments import PADDLE
from service.payments.documents import convert, find_text, to_amount, to_time
from service.payments.events import (
    Change,
    CustomerReported,
    Payer,
    PaymentRefunded,
    PaymentReported,
    SubscriptionReported,
    VerifiedEvent,
)
from service.payments.prices import Prices
from service.payments.shapes import PricedItem, list_price_ids, rank_of, read_customer
from service.payments.signatures import check_signature, find_timestamp

# Whatever is none of these came about in between.
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
    type: str | None = None  # absent from older events, whose items each have one


class Paddle:
    """The provider `paddle`, as `service.payments.webhooks` asks for one."""

    name: ClassVar[str] = PADDLE
    signature_header: ClassVar[str] = "Paddle-Signature"

    def __init__(self, secret: str, prices: Prices) -> None:
        self._secret = Secret(secret)
        self._verifier = PaddleSignature()
        self._prices = prices
        # It tells of every check what our own log tells of every event.
        logging.getLogger("paddle_billing").setLevel(logging.WARNING)

    def verify(self, body: bytes, signature: str) -> None:
        check_signature(
            self.name,
            lambda: self._verifier.verify(signature, body.decode("utf-8"), self._secret),
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

    def _changes(self, kind: str, reported: Mapping[str, Any]) -> tuple[Change, ...]:
        match kind.split("."):
            case ["transaction", "paid" | "completed"]:
                return self._of_transaction(convert(reported, _Transaction))
            case ["adjustment", "created" | "updated"]:
                return _of_adjustment(convert(reported, _Adjustment))
            case ["customer", "created" | "updated" | "imported"]:
                return (read_customer(reported),)
            case ["subscription", change] if _CHANGES.fullmatch(change):
                return (self._of_subscription(change, convert(reported, _Subscription)),)
        return ()

    def _of_transaction(self, reported: _Transaction) -> tuple[Change, ...]:
        payer = _payer(reported.customer_id, reported.custom_data)
        purchase = self._prices.find_purchase(list_price_ids(reported.items))
        if purchase is None:
            return (CustomerReported(payer=payer),)
        kind, plan = purchase
        totals = reported.details.totals
        return (
            PaymentReported(
                reference=reported.id,
                payer=payer,
                kind=kind,
                plan=plan,
                amount=_amount(totals.grand_total or totals.total, reported.currency_code),
                currency=reported.currency_code,
                is_paid=reported.status in ("paid", "completed"),
            ),
        )

    def _of_subscription(self, change: str, reported: _Subscription) -> SubscriptionReported:
        return SubscriptionReported(
            reference=reported.id,
            payer=_payer(reported.customer_id, reported.custom_data),
            plan=self._prices.find_plan(list_price_ids(reported.items)),
            status=reported.status,
            rank=rank_of(_KIND_RANKS.get(change, 1), reported.status),
        )


def _of_adjustment(reported: _Adjustment) -> tuple[Change, ...]:
    """An approved refund of the whole transaction; a part that went back changes nothing."""
    is_whole = reported.type == "full" or (
        reported.type is None and {item.type for item in reported.items} == {"full"}
    )
    if reported.action != "refund" or reported.status != "approved" or not is_whole:
        return ()
    payer = Payer(customer_reference=reported.customer_id)
    return (PaymentRefunded(reference=reported.transaction_id, payer=payer),)


def _payer(customer_id: str | None, custom_data: object) -> Payer:
    """Our reference comes back as custom data, under the name that its link gave it or our own."""
    reference = find_text(custom_data, "app_user_id", "account_id")
    return Payer(account_id=reference, customer_reference=customer_id)


def _amount(minor: str, currency: str) -> Decimal | None:
    return to_amount(minor, currency) if minor.isascii() and minor.isdigit() else None
