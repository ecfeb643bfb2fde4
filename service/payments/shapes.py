"""The parts of events that both payment providers share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from service.payments.documents import convert
from service.payments.events import CustomerUpdated, Payer, clean_email

# A subscription's statuses in the order it passes through them.
_LIFE: Final = (
    "incomplete",
    "trialing",
    "active",
    "past_due",
    "unpaid",
    "paused",
    "incomplete_expired",
    "canceled",
)


class _Money(msgspec.Struct):
    amount: str
    currency_code: str


class _Price(msgspec.Struct):
    id: str
    unit_price: _Money | None = None  # only in Paddle's events


class PricedItem(msgspec.Struct):
    price: _Price
    quantity: int | None = 1  # null in Stripe's metered subscriptions


class _Customer(msgspec.Struct):
    id: str
    email: str | None = None


def list_price_ids(items: Sequence[PricedItem]) -> list[str]:
    return [item.price.id for item in items]


def read_customer(document: Mapping[str, Any]) -> CustomerUpdated:
    customer = convert(document, _Customer)
    email = clean_email(customer.email)
    return CustomerUpdated(payer=Payer(customer_reference=customer.id, email=email))


def rank_of(kind_rank: int, status: str) -> int:
    """Return the order of two events with the same time: by kind, then by the later status."""
    return kind_rank * (len(_LIFE) + 1) + (_LIFE.index(status) + 1 if status in _LIFE else 0)
