"""Spend by model, route and day, and calls without a price."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from hashlib import md5
from typing import Final

from msgspec import Struct

# Days with so few calls together share a stored file: a file of its own for each would cost more.
SPARSE_CALLS: Final = 10_000


class SpendByModel(Struct, frozen=True, kw_only=True):
    provider: str
    model: str
    calls: int
    spend_usd: Decimal


class SpendByRoute(Struct, frozen=True, kw_only=True):
    route: str
    calls: int
    spend_usd: Decimal


class SpendByDay(Struct, frozen=True, kw_only=True):
    day: str
    calls: int
    spend_usd: Decimal


class SpendByDayAndModel(Struct, frozen=True, kw_only=True):
    day: str
    provider: str
    model: str
    spend_usd: Decimal


class Others(Struct, frozen=True, kw_only=True):
    """The entries that are missing from a shortened list: their number and their sums."""

    count: int = 0
    calls: int = 0
    spend_usd: Decimal = Decimal(0)


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model of the price book."""

    provider: str
    model: str


class UnpricedModel(Struct, frozen=True, kw_only=True):
    """A model without a known price; `tokens` are those of its prompts and answers.

    `suggestions` are the models of the price book with the closest names.
    """

    provider: str
    model: str
    calls: int
    tokens: int = 0
    suggestions: tuple[KnownModel, ...] = ()

    @property
    def closest_names(self) -> str:
        """Return the names of the suggestions, with their provider where it is another."""
        return ", ".join(
            near.model if near.provider == self.provider else f"{near.model} ({near.provider})"
            for near in self.suggestions
        )


class PlanSums(Struct, frozen=True, kw_only=True):
    """The sums of calls that a plan includes.

    `value_usd` is what they would have cost through the provider's API: no money was spent on them.
    Calls without a price add to the counts only.
    """

    calls: int
    unpriced_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    value_usd: Decimal


class PlanModel(PlanSums, frozen=True, kw_only=True):
    provider: str
    model: str


class PlanRoute(PlanSums, frozen=True, kw_only=True):
    route: str


class PlanUsage(PlanSums, frozen=True, kw_only=True):
    """The calls that a plan includes, which no other figure of a report counts.

    The most valuable models and routes come first. The sums are of all of them, the lists have the
    first thousand; the route of calls without tag and endpoint is empty. Times are ISO 8601 in UTC.
    """

    first_call: str
    last_call: str
    models: tuple[PlanModel, ...]
    routes: tuple[PlanRoute, ...]


class DailySpend(Struct, frozen=True, kw_only=True):
    """The calls of one route, provider, model and environment on one day in UTC.

    `cost_usd` is at the account's own prices, `list_usd` at list prices. Both are 0 for calls
    without a price, which `unpriced_calls` counts.
    """

    day: date
    route: str
    provider: str
    model: str
    environment: str
    calls: int
    unpriced_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost_usd: Decimal
    list_usd: Decimal
    day_shift: int = 0  # to the day in the account's time zone: -1, 0 or 1


class DailyPlanUsage(DailySpend, frozen=True, kw_only=True):
    """The same of calls that a plan includes, in one hour: its dollars are value, and no spend."""

    hour: int  # of the day in UTC, because plans count in windows of hours


class MergedCalls(Struct, frozen=True, kw_only=True):
    """A stored file of an account's calls: its bytes, the spend of its calls, and their numbers.

    `duplicates` are the calls that were dropped because they were in the merged files before.
    """

    first_day: date
    last_day: date
    content: bytes
    calls: int
    duplicates: int
    imports: int
    spend: Sequence[DailySpend]
    priced_with: str  # the name of the prices
    rates: str  # a digest of the rates of the models in the file


class StoredImport(Struct, frozen=True, kw_only=True):
    """The calls in the stored frame of an import: their number, their days and their spend."""

    calls: int
    first_day: date | None
    last_day: date | None
    spend: Sequence[DailySpend]
    priced_with: str


def name_prices(version: str, price_terms: str, zone: str = "") -> str:
    """Return a name of an account's prices: the price book's version and a hash of its terms.

    With a time zone, by whose days spend is summed as well, it is the third part.
    """
    terms = md5(price_terms.encode(), usedforsecurity=False).hexdigest()
    return "|".join(filter(None, (version, terms, zone)))
