"""Where to pay: the configured links, each with the account's reference in it."""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from service.config import Config
from service.models.billing.payments import PROVIDERS

# The parameter of a payment link that comes back in the provider's events. An address would not
# belong into a link: those are logged on their way.
_REFERENCE: Final = {"stripe": "client_reference_id", "paddle": "app_user_id"}


def payment_links(config: Config, account_id: str, *, ware: str = "credit") -> list[dict[str, str]]:
    """Where this account can buy a credit, or `pro` or `team`, one link a configured provider."""
    links = {one: getattr(config, f"{one}_{ware}_link") for one in PROVIDERS}
    return [
        {"provider": provider, "url": _with_reference(url, _REFERENCE[provider], account_id)}
        for provider, url in links.items()
        if url
    ]


def _with_reference(url: str, parameter: str, account_id: str) -> str:
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name != parameter]
    return parts._replace(query=urlencode([*kept, (parameter, account_id)])).geturl()
