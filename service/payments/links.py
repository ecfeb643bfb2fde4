"""The configured payment links, each with the account's reference."""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from service.config import Config
from service.models.billing.payments import PROVIDERS

# The link's parameter that comes back in the provider's events. It never holds an email address,
# because links are logged on their way.
_REFERENCE: Final = {"stripe": "client_reference_id", "paddle": "app_user_id"}

# In place of a payment provider, in the link to the page that says how to get credits.
BILLING: Final = "billing"


def payment_links(
    config: Config, account_id: str, *, product: str = "credit"
) -> list[dict[str, str]]:
    """Return one link per configured payment provider, to buy a credit, `pro` or `team`."""
    links = []
    for provider in PROVIDERS:
        if url := getattr(config, f"{provider}_{product}_link"):
            parts, parameter = urlsplit(url), _REFERENCE[provider]
            kept = [pair for pair in parse_qsl(parts.query) if pair[0] != parameter]
            query = urlencode([*kept, (parameter, account_id)])
            links.append({"provider": provider, "url": parts._replace(query=query).geturl()})
    return links


def purchase_links(config: Config, account_id: str) -> list[dict[str, str]]:
    """Return the links of a 402; without a payment provider, the one of our own billing page."""
    billing = {"provider": BILLING, "url": f"{config.base_url}/billing"}
    return payment_links(config, account_id) or [billing]
