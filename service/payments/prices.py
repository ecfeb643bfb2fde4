"""What each configured price buys."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from service.config import Config
from service.models.billing.payments import CREDIT, SUBSCRIPTION
from service.models.identity.accounts import KEY_LIMITS


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The price ids of one provider. A plan may have several: monthly, yearly, older ones."""

    credit: frozenset[str]
    pro: frozenset[str]
    team: frozenset[str]

    @classmethod
    def of_provider(cls, config: Config, provider: str) -> Self:
        wares = ("credit", "pro", "team")
        return cls(**{ware: _ids(getattr(config, f"{provider}_{ware}_price")) for ware in wares})

    def find_plan(self, price_ids: Iterable[str]) -> str | None:
        """The best plan that any of these prices pays for."""
        bought = set(price_ids)
        plans = [plan for plan in KEY_LIMITS if bought & getattr(self, plan, frozenset())]
        return plans[-1] if plans else None

    def find_purchase(self, price_ids: Iterable[str]) -> tuple[str, str | None] | None:
        """The kind of payment that these prices make, and its plan."""
        bought = set(price_ids)
        plan = self.find_plan(bought)
        if plan is not None:
            return SUBSCRIPTION, plan
        return (CREDIT, None) if bought & self.credit else None


def _ids(setting: str) -> frozenset[str]:
    return frozenset(one.strip() for one in setting.split(",") if one.strip())
