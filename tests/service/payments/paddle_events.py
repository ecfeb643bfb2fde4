"""Paddle's events as its library types them, signed as its library signs them."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

SECRET: Final = "pdl_ntfset_a_secret_for_tests_of_paddle"
PATH: Final = "/api/v1/webhooks/paddle"
START: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
PRICES: Final = {"credit": "pri_credit", "pro": "pri_pro", "team": "pri_team"}
_AT: Final = "2026-03-01T09:00:00.000000Z"
_MONEY: Final = {"amount": "4900", "currency_code": "USD"}


def event(
    kind: str, reported: dict[str, Any], *, minute: float = 0, **fields: Any
) -> dict[str, Any]:
    """The event as the library's types write it; they refuse what lacks a field of theirs."""
    from paddle_billing.Entities.Event import Event
    from paddle_billing.Json import PayloadEncoder

    occurred_at = START + timedelta(minutes=minute)
    typed = Event.from_dict(
        {
            "event_id": f"evt_{uuid4().hex}",
            "event_type": kind,
            "occurred_at": occurred_at.isoformat(),
            "data": reported,
            **fields,
        }
    )
    assert type(typed.data).__name__ != "UndefinedEntity", kind
    document: dict[str, Any] = json.loads(json.dumps(typed, cls=PayloadEncoder))
    return document | {"notification_id": f"ntf_{uuid4().hex}"}


def transaction(
    kind: str = "completed",
    *,
    ware: str = "credit",
    quantity: int = 1,
    total: str = "4900",
    minute: float = 0,
    **fields: Any,
) -> dict[str, Any]:
    """A paid transaction."""
    reported = {
        "id": f"txn_{uuid4().hex}",
        "status": "paid" if kind == "paid" else "completed",
        "currency_code": "USD",
        "origin": "web",
        "collection_mode": "automatic",
        "items": [{"price": _price(ware), "quantity": quantity, "proration": None}],
        "details": {"totals": _totals(total), "tax_rates_used": [], "line_items": []},
        "payments": [],
        "created_at": _AT,
        "updated_at": _AT,
        **fields,
    }
    return event(f"transaction.{kind}", reported, minute=minute)


def refund(transaction_id: str, *, minute: float = 5, **fields: Any) -> dict[str, Any]:
    """An approved refund of all of it."""
    reported = {
        "id": f"adj_{uuid4().hex}",
        "action": "refund",
        "type": "full",
        "status": "approved",
        "transaction_id": transaction_id,
        "customer_id": "ctm_1",
        "reason": "asked for",
        "currency_code": "USD",
        "items": [],
        "totals": {
            **dict.fromkeys(("subtotal", "tax", "total", "fee", "earnings"), "0"),
            "currency_code": "USD",
        },
        "created_at": _AT,
        **fields,
    }
    return event("adjustment.updated", reported, minute=minute)


def customer(
    reference: str, email: str, kind: str = "created", *, minute: float = 0
) -> dict[str, Any]:
    reported = {
        "id": reference,
        "email": email,
        "marketing_consent": False,
        "status": "active",
        "locale": "en",
        "created_at": _AT,
        "updated_at": _AT,
    }
    return event(f"customer.{kind}", reported, minute=minute)


def subscription(
    kind: str,
    status: str,
    *,
    reference: str = "sub_1",
    plan: str = "pro",
    minute: float = 0,
    **fields: Any,
) -> dict[str, Any]:
    """What a subscription of the customer `ctm_<its reference>` is at that minute."""
    item = {
        "status": "active",
        "quantity": 1,
        "recurring": True,
        "created_at": _AT,
        "updated_at": _AT,
        "price": _price(plan),
    }
    reported = {
        "id": reference,
        "status": status,
        "customer_id": f"ctm_{reference}",
        "address_id": "add_1",
        "currency_code": "USD",
        "collection_mode": "automatic",
        "billing_cycle": {"interval": "month", "frequency": 1},
        "items": [item],
        "created_at": _AT,
        "updated_at": _AT,
        **fields,
    }
    return event(f"subscription.{kind}", reported, minute=minute)


def signed(
    document: dict[str, Any], *, secret: str = SECRET, at: float | None = None
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the request that delivers an event."""
    from paddle_billing.Notifications import PaddleSignature

    body = json.dumps(document, ensure_ascii=False).encode()
    timestamp = int(time.time() if at is None else at)
    signature = PaddleSignature.calculate_hmac(secret, f"{timestamp}:".encode() + body).hexdigest()
    header = f"ts={timestamp};h1={signature}"
    return body, {"Paddle-Signature": header, "Content-Type": "application/json"}


def _price(ware: str) -> dict[str, Any]:
    return {
        "id": PRICES.get(ware, ware),
        "product_id": "pro_1",
        "description": "what is sold",
        "tax_mode": "account_setting",
        "unit_price": _MONEY,
        "unit_price_overrides": [],
        "quantity": {"minimum": 1, "maximum": 1},
        "status": "active",
        "created_at": _AT,
        "updated_at": _AT,
    }


def _totals(total: str) -> dict[str, str]:
    names = ("subtotal", "discount", "tax", "credit", "balance", "credit_to_balance")
    return dict.fromkeys(names, "0") | {
        "total": total,
        "grand_total": total,
        "currency_code": "USD",
    }
