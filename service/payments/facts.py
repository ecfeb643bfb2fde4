"""What the service needs to know of a payment event: a few facts, the same for each provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Payer:
    """Who paid, as far as an event tells: any of the three may be missing."""

    account_id: str | None = None  # our reference out of the payment link; nobody has checked it
    customer_reference: str | None = None
    email: str | None = None  # in lower case


@dataclass(frozen=True, kw_only=True)
class PaymentTold:
    """A payment that was begun or, where it `is_paid`, made."""

    reference: str
    payer: Payer
    kind: str
    plan: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    is_paid: bool = True


@dataclass(frozen=True, kw_only=True)
class PaymentRefunded:
    """The whole of a payment went back."""

    reference: str
    payer: Payer


@dataclass(frozen=True, kw_only=True)
class SubscriptionTold:
    """What a subscription was at the time of the event."""

    reference: str
    payer: Payer
    plan: str | None  # none for a price that is not among the settings
    status: str
    rank: int  # orders the events of one moment, of which the higher is the later


@dataclass(frozen=True, kw_only=True)
class CustomerTold:
    """Who a customer is, and nothing more."""

    payer: Payer


Fact = PaymentTold | PaymentRefunded | SubscriptionTold | CustomerTold


@dataclass(frozen=True, kw_only=True)
class VerifiedEvent:
    """An event that its provider has signed, as it is kept, and what it tells."""

    provider: str
    event_id: str
    type: str
    occurred_at: datetime
    payload: Mapping[str, Any]
    facts: tuple[Fact, ...] = ()


def clean_email(email: str | None) -> str | None:
    """The address as accounts keep it, or none."""
    return (email or "").strip().lower() or None
