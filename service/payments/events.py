"""Payment events: the changes they report, in the same form for every payment provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Payer:
    """The payer, as far as an event identifies one: any field may be missing."""

    account_id: str | None = None  # our reference out of the payment link; nobody has checked it
    customer_reference: str | None = None
    email: str | None = None  # in lower case


@dataclass(frozen=True, kw_only=True)
class PaymentReported:
    """A payment that was started or, if `is_paid`, completed."""

    reference: str
    payer: Payer
    kind: str
    plan: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    is_paid: bool = True


@dataclass(frozen=True, kw_only=True)
class PaymentRefunded:
    """A payment was refunded in full."""

    reference: str
    payer: Payer


@dataclass(frozen=True, kw_only=True)
class SubscriptionReported:
    """The state of a subscription at the time of the event."""

    reference: str
    payer: Payer
    plan: str | None  # none for a price that is not among the settings
    status: str
    rank: int  # orders the events of one moment, of which the higher is the later


@dataclass(frozen=True, kw_only=True)
class CustomerReported:
    """A customer's email address."""

    payer: Payer


Change = PaymentReported | PaymentRefunded | SubscriptionReported | CustomerReported


@dataclass(frozen=True, kw_only=True)
class VerifiedEvent:
    """A signed event as stored, and the changes it reports."""

    provider: str
    event_id: str
    type: str
    occurred_at: datetime
    payload: Mapping[str, Any]
    changes: tuple[Change, ...] = ()


def clean_email(email: str | None) -> str | None:
    """Return the address as accounts store it, or None."""
    return (email or "").strip().lower() or None
