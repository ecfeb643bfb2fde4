"""The products that configured prices buy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from service.config import Config
from service.models.billing.payments import CREDIT, SUBSCRIPTION
from service.models.identity.accounts import KEY_LIMITS


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The price IDs of one payment provider. A plan may have several: monthly, yearly, older."""

    credit: frozenset[str]
    pro: frozenset[str]
    team: frozenset[str]

    @classmethod
    def of_provider(cls, config: Config, provider: str) -> Self:
        return cls(
            **{
                product: _ids(getattr(config, f"{provider}_{product}_price"))
                for product in ("credit", "pro", "team")
            }
        )

    def find_plan(self, price_ids: Iterable[str]) -> str | None:
        """Return the best plan that any of these prices buys."""
        bought = set(price_ids)
        plans = [plan for plan in KEY_LIMITS if bought & getattr(self, plan, frozenset())]
        return plans[-1] if plans else None

    def find_purchase(self, price_ids: Iterable[str]) -> tuple[str, str | None] | None:
        """Return the kind and plan of a payment with these prices."""
        bought = set(price_ids)
        plan = self.find_plan(bought)
        if plan is not None:
            return SUBSCRIPTION, plan
        return (CREDIT, None) if bought & self.credit else None


def _ids(setting: str) -> frozenset[str]:
    return frozenset(price.strip() for price in setting.split(",") if price.strip())
