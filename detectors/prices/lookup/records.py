"""The records of the price book as audits need them, in the form of genai-prices' own.

They have the attributes and the matching of `genai_prices.types` and of its snapshots, which load
pydantic. Tests compare both for every model and name.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice
    from genai_prices.types import Provider as BookProvider

    AnySnapshot: TypeAlias = "DataSnapshot | Snapshot"
    AnyProvider: TypeAlias = "BookProvider | Provider"
    AnyModel: TypeAlias = "ModelInfo | Model"
    AnyPrices: TypeAlias = "ModelPrice | Prices"

_GATEWAY: Final = "litellm"
_COMPACT_DATE: Final = re.compile(r"-(20\d\d)([01][0-9])([0-3][0-9])(?=-|:|$)")


class Clause(msgspec.Struct, frozen=True):
    """A condition on a name in lower case: an operation, and its texts or clauses."""

    terms: list[Any]

    def is_match(self, text: str) -> bool:
        return _is_match(self.terms, text)


def _is_match(terms: list[Any], text: str) -> bool:
    operation, *values = terms
    if operation in ("or", "and"):
        return (any if operation == "or" else all)(_is_match(each, text) for each in values)
    (value,) = values
    match operation:
        case "equals":
            return bool(text == value)
        case "starts_with":
            return text.startswith(value)
        case "ends_with":
            return text.endswith(value)
        case "contains":
            return value in text
    return bool(re.search(value, text))


class StartDate(msgspec.Struct, frozen=True):
    """Prices apply from this day in UTC on."""

    start_date: date

    def active(self, at: datetime) -> bool:
        return _in_utc(at).date() >= self.start_date


class Daytime(msgspec.Struct, frozen=True):
    """Prices apply between two times of the UTC day; the second may be on the next day."""

    start_time: time
    end_time: time

    def active(self, at: datetime) -> bool:
        now = _in_utc(at).time()
        first, last = (_utc_time(each) for each in (self.start_time, self.end_time))
        if last < first:
            return now >= first or now < last
        return first <= now < last


def _in_utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _utc_time(clock: time) -> time:
    return _in_utc(datetime.combine(date(2000, 1, 1), clock)).time()


class Tier(msgspec.Struct, frozen=True):
    """The price of prompts that are longer than `start` tokens."""

    start: int
    price: Decimal


class TieredPrices(msgspec.Struct, frozen=True):
    """A price that depends on the length of the prompt."""

    base: Decimal
    tiers: list[Tier]


class Prices:
    def __init__(self, prices: Mapping[str, Decimal | TieredPrices]) -> None:
        vars(self).update(prices)


class ConditionalPrice(msgspec.Struct, frozen=True):
    """Prices, and when they apply; without a constraint, always."""

    constraint: StartDate | Daytime | None
    prices: Prices


class PriceVariant(msgspec.Struct, frozen=True):
    """Prices that replace others for requests of a kind, such as a service tier."""

    when: dict[str, str]
    constraint: StartDate | Daytime | None
    prices: Prices


class Model(msgspec.Struct, array_like=True, dict=True, eq=False):
    id: str
    terms: list[Any]
    context_window: int | None
    listed: Any
    variants: list[Any] | None

    @cached_property
    def prices(self) -> Prices | list[ConditionalPrice]:
        if isinstance(self.listed, dict):
            return _read_prices(self.listed)
        return [ConditionalPrice(_read_time(when), _read_prices(raw)) for when, raw in self.listed]

    @cached_property
    def price_variants(self) -> list[PriceVariant] | None:
        if self.variants is None:
            return None
        return [
            PriceVariant(kind, _read_time(when), _read_prices(raw))
            for kind, when, raw in self.variants
        ]

    def get_prices(self, at: datetime, context: Mapping[str, str] | None = None) -> Prices:
        """Return the prices at a time, for requests with this context."""
        standard = self._standard(at)
        if not context:
            return standard
        special: dict[str, Any] = {}
        for variant in self.price_variants or ():
            is_active = variant.constraint is None or variant.constraint.active(at)
            if is_active and variant.when.items() <= context.items():
                special = vars(variant.prices) | special
        return Prices(vars(standard) | special)

    def _standard(self, at: datetime) -> Prices:
        if isinstance(self.prices, Prices):
            return self.prices
        for price in reversed(self.prices):
            if price.constraint is None or price.constraint.active(at):
                return price.prices
        return self.prices[0].prices


def _read_time(when: str | list[str] | None) -> StartDate | Daytime | None:
    if when is None:
        return None
    if isinstance(when, str):
        return StartDate(date.fromisoformat(when))
    return Daytime(*map(time.fromisoformat, when))


def _read_prices(raw: Mapping[str, Any]) -> Prices:
    return Prices({key: _read_price(price) for key, price in raw.items()})


def _read_price(raw: Any) -> Decimal | TieredPrices:
    if isinstance(raw, str):
        return Decimal(raw)
    base, *tiers = raw
    return TieredPrices(Decimal(base), [Tier(start, Decimal(price)) for start, price in tiers])


class Provider(msgspec.Struct, array_like=True, eq=False):
    id: str
    by_model: list[Any] | None
    by_name: list[Any] | None
    fallback_model_providers: list[str] | None
    models: list[Model]

    @property
    def model_match(self) -> Clause | None:
        return None if self.by_model is None else Clause(self.by_model)

    @property
    def provider_match(self) -> Clause | None:
        return None if self.by_name is None else Clause(self.by_name)


class Snapshot(msgspec.Struct, eq=False):
    """The prices of one version of genai-prices."""

    version: str
    sources: dict[str, str]
    units: dict[str, dict[str, Any]]
    providers: list[Provider]

    def find_provider_model(
        self, model: str, _provider: None, provider_id: str | None, _url: None
    ) -> tuple[Provider, Model]:
        """Return a model and who sells it; raise LookupError if the book does not have it."""
        name = model.lower()
        if provider_id and provider_id.lower() == _GATEWAY:
            prefix, slash, rest = name.partition("/")
            if slash and prefix and find_provider_by_id(self.providers, prefix):
                provider_id, name = prefix, rest
        provider = self._find_provider(name, provider_id)
        # Some names are known by a date with dashes only.
        dashed = _COMPACT_DATE.sub(_with_dashes, name)
        found = self._find_model(provider, name) or self._find_model(provider, dashed)
        if found is None:
            raise LookupError(name)
        return provider, found

    def _find_provider(self, name: str, provider_id: str | None) -> Provider:
        if provider_id is not None:
            known: Provider | None = find_provider_by_id(self.providers, provider_id)
            if known is not None:
                return known
            if provider_id.lower() != _GATEWAY:
                raise LookupError(provider_id)
        for provider in self.providers if name else ():
            if provider.model_match is not None and provider.model_match.is_match(name):
                return provider
        raise LookupError(name)

    def _find_model(self, provider: Provider, name: str) -> Model | None:
        by_id = {each.id: each for each in self.providers}
        others = (by_id.get(other) for other in provider.fallback_model_providers or ())
        for seller in (provider, *filter(None, others)):
            for each in seller.models:
                if _is_match(each.terms, name):
                    return each
        return None

    def _find_dated(self, provider: Provider, name: str) -> Model | None:
        """Find a name whose date has no dashes."""
        dashed = _COMPACT_DATE.sub(_with_dashes, name)
        return None if dashed == name else self._find_model(provider, dashed)


def _with_dashes(found: re.Match[str]) -> str:
    try:
        return f"-{date(*map(int, found.groups())).isoformat()}"
    except ValueError:
        return found[0]


def find_provider_by_id(providers: Iterable["AnyProvider"], provider_id: str) -> Any:
    """Return the provider of this ID, or else the first whose names match it; None without one."""
    name = provider_id.lower().strip()
    exact = (each for each in providers if each.id == name)
    named = ((each, each.provider_match) for each in providers)
    likely = (each for each, clause in named if clause and clause.is_match(name))
    return next(exact, None) or next(likely, None)
