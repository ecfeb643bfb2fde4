"""The pieces of events that both providers write alike."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.payments.documents import convert
from service.payments.events import CustomerReported, Payer, clean_email


class _Price(msgspec.Struct):
    id: str


class PricedItem(msgspec.Struct):
    price: _Price


class _Customer(msgspec.Struct):
    id: str
    email: str | None = None


def list_price_ids(items: Sequence[PricedItem]) -> list[str]:
    return [item.price.id for item in items]


def read_customer(reported: Mapping[str, Any]) -> CustomerReported:
    customer = convert(reported, _Customer)
    email = clean_email(customer.email)
    return CustomerReported(payer=Payer(customer_reference=customer.id, email=email))
