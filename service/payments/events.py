"""Payment events and the changes in them, in the same form for every payment provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Payer:
    """The payer of an event; any field may be missing."""

    account_id: str | None = None  # our reference from the payment link, unchecked
    customer_reference: str | None = None
    email: str | None = None  # in lower case


@dataclass(frozen=True, kw_only=True)
class PaymentUpdated:
    """A payment that was started or, if `is_paid`, completed."""

    reference: str
    payer: Payer
    kind: str
    plan: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    quantity: int = 1  # of audits
    is_paid: bool = True


@dataclass(frozen=True, kw_only=True)
class PaymentRefunded:
    """A payment was refunded in full."""

    reference: str
    payer: Payer


@dataclass(frozen=True, kw_only=True)
class PaymentDisputed:
    """The payer's bank takes a payment back or, if `is_won`, returns it to the seller."""

    reference: str
    payer: Payer
    is_won: bool


@dataclass(frozen=True, kw_only=True)
class SubscriptionUpdated:
    """The state of a subscription at the time of the event."""

    reference: str
    payer: Payer
    plan: str | None  # None if the settings don't have its price
    status: str
    rank: int  # orders events with the same time; a higher rank is later


@dataclass(frozen=True, kw_only=True)
class CustomerUpdated:
    """A customer's email address."""

    payer: Payer


Change = PaymentUpdated | PaymentRefunded | PaymentDisputed | SubscriptionUpdated | CustomerUpdated


@dataclass(frozen=True, kw_only=True)
class VerifiedEvent:
    """A verified event as stored, with its changes."""

    provider: str
    event_id: str
    type: str
    occurred_at: datetime
    payload: Mapping[str, Any]
    changes: tuple[Change, ...] = ()


def clean_email(email: str | None) -> str | None:
    """Return the address as accounts store it, or None."""
    return (email or "").strip().lower() or None
