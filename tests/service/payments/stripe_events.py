"""Stripe's events as its library types them, signed as its library signs them."""

import json
import time
from typing import Any, Final
from uuid import uuid4

import stripe
from stripe import WebhookSignature
from stripe.checkout import Session as CheckoutSession

SECRET: Final = "whsec_a_secret_for_tests_of_stripe"
PATH: Final = "/api/v1/webhooks/stripe"
START: Final = 1_772_355_600  # in seconds, as all times of Stripe's
PRICES: Final = {"credit": "price_credit", "pro": "price_pro", "team": "price_team"}


def shaped(kind: type[stripe.StripeObject], **fields: Any) -> dict[str, Any]:
    """An object with every field of the library's type, those not given being null."""
    known = kind.__annotations__
    assert set(fields) <= set(known), set(fields) - set(known)
    return {name: None for name in known if name.islower() and name[0] != "_"} | fields


def event(kind: str, reported: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return shaped(
        stripe.Event,
        **{
            "id": f"evt_{uuid4().hex}",
            "object": "event",
            "api_version": "2026-02-25",
            "type": kind,
            "created": START,
            "livemode": True,
            "pending_webhooks": 1,
            "data": shaped(stripe.Event.Data, object=reported),
            **fields,
        },
    )


def checkout(kind: str = "completed", *, email: str | None = None, **fields: Any) -> dict[str, Any]:
    """A checkout of one audit, paid at once."""
    reported = shaped(
        CheckoutSession,
        **{
            "id": f"cs_{uuid4().hex}",
            "object": "checkout.session",
            "mode": "payment",
            "status": "complete",
            "payment_status": "paid",
            "payment_intent": f"pi_{uuid4().hex}",
            "amount_subtotal": 4900,
            "amount_total": 4900,
            "currency": "usd",
            "customer_details": shaped(CheckoutSession.CustomerDetails, email=email),
            "metadata": {"price": PRICES["credit"]},
            **fields,
        },
    )
    return event(f"checkout.session.{kind}", reported)


def refund(payment_intent: str, *, refunded: bool = True, **fields: Any) -> dict[str, Any]:
    reported = shaped(
        stripe.Charge,
        id=f"ch_{uuid4().hex}",
        object="charge",
        amount=4900,
        amount_refunded=4900 if refunded else 100,
        currency="usd",
        payment_intent=payment_intent,
        refunded=refunded,
        status="succeeded",
    )
    return event("charge.refunded", reported, **fields)


def dispute(
    payment_intent: str, *, status: str = "needs_response", **fields: Any
) -> dict[str, Any]:
    """A dispute that was opened or, with the status `won` or `lost`, closed."""
    reported = shaped(
        stripe.Dispute,
        id=f"dp_{uuid4().hex}",
        object="dispute",
        amount=4900,
        currency="usd",
        charge=f"ch_{uuid4().hex}",
        payment_intent=payment_intent,
        reason="fraudulent",
        status=status,
    )
    change = "closed" if status in ("won", "lost") else "created"
    return event(f"charge.dispute.{change}", reported, **fields)


def customer(reference: str, email: str, kind: str = "created", **fields: Any) -> dict[str, Any]:
    reported = shaped(stripe.Customer, id=reference, object="customer", email=email)
    return event(f"customer.{kind}", reported, **fields)


def subscription(
    kind: str, status: str, *, reference: str = "sub_1", plan: str = "pro", **fields: Any
) -> dict[str, Any]:
    """What a subscription of the customer `cus_<its reference>` is at the time `created`."""
    price = shaped(stripe.Price, id=PRICES.get(plan, plan), object="price", type="recurring")
    item = shaped(stripe.SubscriptionItem, id="si_1", object="subscription_item", price=price)
    reported = shaped(
        stripe.Subscription,
        id=reference,
        object="subscription",
        customer=f"cus_{reference}",
        status=status,
        items={"object": "list", "data": [item], "has_more": False, "url": "/v1/items"},
    )
    return event(f"customer.subscription.{kind}", reported, **fields)


def signed(
    document: dict[str, Any], *, secret: str = SECRET, at: float | None = None
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the request that delivers an event."""
    body = json.dumps(document, ensure_ascii=False)
    timestamp = int(time.time() if at is None else at)
    signature = WebhookSignature.generate_signature_header(body, secret, timestamp)
    headers = {"Stripe-Signature": signature, "Content-Type": "application/json"}
    return body.encode(), headers
