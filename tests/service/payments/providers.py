"""Both payment providers behind one interface, for tests that are the same for each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.service.payments import paddle_events, stripe_events


@dataclass(frozen=True)
class Provider:
    name: str
    path: str
    secret: str
    header: str
    separator: str
    time_key: str
    signature_key: str
    signed: Callable[..., tuple[bytes, dict[str, str]]]
    paid: Callable[..., dict[str, Any]]  # a paid credit, of the account with this ID


STRIPE: Final = Provider(
    name="stripe",
    path=stripe_events.PATH,
    secret=stripe_events.SECRET,
    header="Stripe-Signature",
    separator=",",
    time_key="t",
    signature_key="v1",
    signed=stripe_events.signed,
    paid=lambda account_id=None, **fields: stripe_events.checkout(
        client_reference_id=account_id, **fields
    ),
)
PADDLE: Final = Provider(
    name="paddle",
    path=paddle_events.PATH,
    secret=paddle_events.SECRET,
    header="Paddle-Signature",
    separator=";",
    time_key="ts",
    signature_key="h1",
    signed=paddle_events.signed,
    paid=lambda account_id=None, **fields: paddle_events.transaction(
        custom_data={"app_user_id": account_id}, **fields
    ),
)
PROVIDERS: Final = (STRIPE, PADDLE)

# The settings of a service that accepts events of both.
SETTINGS: Final[dict[str, str]] = (
    {f"{provider.name}_webhook_secret": provider.secret for provider in PROVIDERS}
    | {
        f"{name}_{ware}_price": price
        for name, prices in (("stripe", stripe_events.PRICES), ("paddle", paddle_events.PRICES))
        for ware, price in prices.items()
    }
    | {"stripe_credit_amount": "49.00 USD, 49 EUR, 4900 JPY, 4.900 KWD"}
)

each_provider: Final = pytest.mark.parametrize(
    "provider", PROVIDERS, ids=lambda provider: provider.name
)
