"""The configured payment providers, and how their requests become verified events."""

from importlib import import_module
from typing import Any, Final, Protocol

from service.config import Config
from service.core.logs import get_logger
from service.errors import BadRequestError, InvalidRequestError
from service.models.billing.payments import PADDLE, STRIPE
from service.payments.documents import decode_document, find_text
from service.payments.events import VerifiedEvent
from service.payments.prices import PlanPrices

MAX_EVENT_BYTES: Final = 256 * 1024  # several times the largest event of either payment provider
_CLASSES: Final = {STRIPE: "Stripe", PADDLE: "Paddle"}
_log = get_logger(__name__)


class Provider(Protocol):
    """The differences between payment providers."""

    @property
    def name(self) -> str: ...

    @property
    def signature_header(self) -> str: ...

    def verify(self, body: bytes, signature: str) -> None:
        """Raise `BadRequestError` unless the provider signed this body recently."""

    def read(self, document: dict[str, Any]) -> VerifiedEvent:
        """Read a verified body; raise `InvalidRequestError` if it has an unknown shape."""


def load_providers(config: Config) -> dict[str, Provider]:
    """Load the payment providers that have a secret, by name.

    Only their libraries are imported, because each takes megabytes and a quarter of a second.
    """
    secrets = {name: getattr(config, f"{name}_webhook_secret") for name in _CLASSES}
    providers = dict[str, Provider]()
    for name, secret in secrets.items():
        if secret:
            provider = getattr(import_module(f"service.payments.{name}"), _CLASSES[name])
            providers[name] = provider(secret.split(), PlanPrices.of_provider(config, name))
    return providers


def open_event(provider: Provider, body: bytes, signature: str | None) -> VerifiedEvent:
    """Verify a request and return its event; the body is parsed only after verification."""
    if not signature:
        raise BadRequestError(f"Send the header {provider.signature_header}.")
    provider.verify(body, signature)
    document = decode_document(body)
    try:
        return provider.read(document)
    except InvalidRequestError:
        event_id = find_text(document, "id", "event_id")
        _log.error("webhook_unreadable", provider=provider.name, event_id=event_id)
        raise
