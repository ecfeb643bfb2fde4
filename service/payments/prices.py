"""The products that configured prices, payment links and amounts buy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Self

from service.config import CREDIT_AMOUNT, Config
from service.models.billing.payments import CREDIT, SUBSCRIPTION
from service.models.identity.accounts import KEY_LIMITS

MAX_QUANTITY: Final = 10_000  # more audits than any payment buys


@dataclass(frozen=True, kw_only=True)
class PlanPrices:
    """The price IDs of one payment provider. A plan may have several: monthly, yearly, older.

    `credit_links` are the IDs of Stripe's payment links for audits, and `credit_amounts` the price
    of one audit by currency, before discounts and taxes.
    """

    credit: frozenset[str]
    pro: frozenset[str]
    team: frozenset[str]
    credit_links: frozenset[str] = frozenset()
    credit_amounts: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def of_provider(cls, config: Config, provider: str) -> Self:
        prices = {
            product: _ids(getattr(config, f"{provider}_{product}_price"))
            for product in ("credit", "pro", "team")
        }
        setting = getattr(config, f"{provider}_credit_amount")
        found = (CREDIT_AMOUNT.fullmatch(text) for text in _ids(setting))
        return cls(
            **prices,
            credit_links=_ids(getattr(config, f"{provider}_credit_link_id", "")),
            credit_amounts={
                match["currency"]: Decimal(match["amount"]) for match in found if match
            },
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

    def count_audits(self, amount: Decimal, currency: str) -> int:
        """Return how many audits this amount buys, or 0 unless it is a multiple of the price."""
        price = self.credit_amounts.get(currency)
        if price is None or amount <= 0 or amount % price:
            return 0
        return int(amount / price)


def _ids(setting: str) -> frozenset[str]:
    return frozenset(part.strip() for part in setting.split(",") if part.strip())
