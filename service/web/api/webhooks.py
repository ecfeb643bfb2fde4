"""POST /api/v1/webhooks/<provider>: what Stripe and Paddle tell of payments."""

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
    400: "The signature is missing, wrong or not of now, or the body is no JSON.",
    403: "Another site's page made a signed-in browser send this.",
    404: "This provider is not configured.",
    413: "The body is larger than any event.",
    422: "The event has not the shape that the provider documents.",
    503: "The service is busy or restarting; send the event again.",
}

blueprint = Blueprint("webhooks", __name__, description="Events of the payment providers.")
_log = get_logger(__name__)


def _signature(header: str, example: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "example": example}
    words = "The provider's HMAC of the body, with its time."
    reported = {"in": "header", "name": header, "required": True, "description": words}
    return [{**reported, "schema": schema}]


@blueprint.route("/webhooks/stripe", methods=["POST"])
@blueprint.documented(
    operation="receive_stripe_event",
    errors=_ERRORS,
    parameters=_signature("Stripe-Signature", "t=1772355600,v1=5257a869"),
)
@blueprint.response(200, EventReceivedSchema, description="Kept; nothing is done twice.")
def stripe() -> dict[str, bool]:
    """Take an event that Stripe signed."""
    return _receive(STRIPE)


@blueprint.route("/webhooks/paddle", methods=["POST"])
@blueprint.documented(
    operation="receive_paddle_event",
    errors=_ERRORS,
    parameters=_signature("Paddle-Signature", "ts=1772355600;h1=eb4d0dc8"),
)
@blueprint.response(200, EventReceivedSchema, description="Kept; nothing is done twice.")
def paddle() -> dict[str, bool]:
    """Take an event that Paddle signed."""
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
