"""POST /api/v1/webhooks/<provider>: receive payment events from Stripe and Paddle."""

from typing import Any, Final

from flask import request

from service.core.logs import get_logger
from service.errors import NotFoundError
from service.models.billing.payments import PADDLE, STRIPE
from service.payments.recording import record_event
from service.payments.webhooks import MAX_EVENT_BYTES, open_event
from service.web.http.bodies import read_body
from service.web.http.current import find_payment_provider, get_session
from service.web.openapi.blueprint import Blueprint
from service.web.schemas.ingest import EventReceivedSchema

_ERRORS: Final = {
    400: "The signature is missing, invalid or expired, or the body isn't valid JSON.",
    403: "The request came from another site.",
    404: "This payment provider isn't configured.",
    413: "The body is too large.",
    422: "The event doesn't have the shape that the payment provider documents.",
    503: "The service is busy or restarting. Send the event again.",
}

blueprint = Blueprint("webhooks", __name__, description="Events from payment providers.")
_log = get_logger(__name__)


def _signature(header: str, example: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "example": example}
    words = "The payment provider's timestamp and HMAC of the body."
    document = {"in": "header", "name": header, "required": True, "description": words}
    return [{**document, "schema": schema}]


@blueprint.route("/webhooks/stripe", methods=["POST"])
@blueprint.documented(
    operation="receive_stripe_event",
    errors=_ERRORS,
    parameters=_signature("Stripe-Signature", "t=1772355600,v1=5257a869"),
)
@blueprint.response(
    200, EventReceivedSchema, description="Received. Duplicate events have no effect."
)
def stripe() -> dict[str, bool]:
    """Receive an event signed by Stripe."""
    return _receive(STRIPE)


@blueprint.route("/webhooks/paddle", methods=["POST"])
@blueprint.documented(
    operation="receive_paddle_event",
    errors=_ERRORS,
    parameters=_signature("Paddle-Signature", "ts=1772355600;h1=eb4d0dc8"),
)
@blueprint.response(
    200, EventReceivedSchema, description="Received. Duplicate events have no effect."
)
def paddle() -> dict[str, bool]:
    """Receive an event signed by Paddle."""
    return _receive(PADDLE)


def _receive(name: str) -> dict[str, bool]:
    provider = find_payment_provider(name)
    if provider is None:
        raise NotFoundError
    signature = request.headers.get(provider.signature_header)
    event = open_event(provider, read_body(MAX_EVENT_BYTES), signature)
    session = get_session()
    is_new = record_event(session, event)
    session.commit()
    _log.info(
        "webhook_received", provider=name, event_id=event.event_id, type=event.type, is_new=is_new
    )
    return {"received": True}
