"""Paddle's events: verified by its own library, and read into facts.

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
from service.payments.facts import (
    CustomerTold,
    Fact,
    Payer,
    PaymentRefunded,
    PaymentTold,
    SubscriptionTold,
    VerifiedEvent,
)
from service.payments.prices import Prices
from service.payments.shapes import PricedItem, list_price_ids, read_customer
from service.payments.signatures import check_signature, find_timestamp
from service.payments.statuses import rank_of

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
            facts=self._facts(event.event_type, event.data),
        )

    def _facts(self, kind: str, told: Mapping[str, Any]) -> tuple[Fact, ...]:
        match kind.split("."):
            case ["transaction", "paid" | "completed"]:
                return self._of_transaction(convert(told, _Transaction))
            case ["adjustment", "created" | "updated"]:
                return _of_adjustment(convert(told, _Adjustment))
            case ["customer", "created" | "updated" | "imported"]:
                return (read_customer(told),)
            case ["subscription", change] if _CHANGES.fullmatch(change):
                return (self._of_subscription(change, convert(told, _Subscription)),)
        return ()

    def _of_transaction(self, told: _Transaction) -> tuple[Fact, ...]:
        payer = _payer(told.customer_id, told.custom_data)
        purchase = self._prices.find_purchase(list_price_ids(told.items))
        if purchase is None:
            return (CustomerTold(payer=payer),)
        kind, plan = purchase
        totals = told.details.totals
        return (
            PaymentTold(
                reference=told.id,
                payer=payer,
                kind=kind,
                plan=plan,
                amount=_amount(totals.grand_total or totals.total, told.currency_code),
                currency=told.currency_code,
                is_paid=told.status in ("paid", "completed"),
            ),
        )

    def _of_subscription(self, change: str, told: _Subscription) -> SubscriptionTold:
        return SubscriptionTold(
            reference=told.id,
            payer=_payer(told.customer_id, told.custom_data),
            plan=self._prices.find_plan(list_price_ids(told.items)),
            status=told.status,
            rank=rank_of(_KIND_RANKS.get(change, 1), told.status),
        )


def _of_adjustment(told: _Adjustment) -> tuple[Fact, ...]:
    """An approved refund of the whole transaction; a part that went back changes nothing."""
    is_whole = told.type == "full" or (
        told.type is None and {item.type for item in told.items} == {"full"}
    )
    if told.action != "refund" or told.status != "approved" or not is_whole:
        return ()
    payer = Payer(customer_reference=told.customer_id)
    return (PaymentRefunded(reference=told.transaction_id, payer=payer),)


def _payer(customer_id: str | None, custom_data: object) -> Payer:
    """Our reference comes back as custom data, under the name that its link gave it or our own."""
    reference = find_text(custom_data, "app_user_id", "account_id")
    return Payer(account_id=reference, customer_reference=customer_id)


def _amount(minor: str, currency: str) -> Decimal | None:
    return to_amount(minor, currency) if minor.isascii() and minor.isdigit() else None
