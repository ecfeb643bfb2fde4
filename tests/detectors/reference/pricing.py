"""Prices of single calls, asked of `genai_prices.calc_price` one by one."""

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelPrice, PriceCalculation, Tier, TieredPrices

from detectors.contract import UsageRecord
from tests.detectors.reference.facts import flat_rate_labels
from tests.detectors.reference.tiers import price_context, published_rule, tier_of


@dataclass(frozen=True, slots=True)
class Price:
    """What one call costs, in US dollars, and the rates per token that led to it.

    `vendor` is the provider that genai_prices found, `model` the name it goes by there. `base_`
    rates are those of the lowest tier.
    """

    vendor: str
    model: str
    cost: float
    input_cost: float
    input: float
    cache_read: float
    cache_write: float
    has_cache_read: bool
    base_input: float
    base_output: float


def price(record: UsageRecord, model: str | None = None) -> Price | None:
    """The price of a call, or what it would be at another model; None where that is unknown."""
    try:
        answer, is_overfull = _answer(record, model or record.model)
    except LookupError:
        return None
    book = answer.model_price
    if book.input_mtok is None and book.output_mtok is None:
        return None
    book = _ruled(record, answer, book)
    prompt = record.prompt_tokens
    input_rate = _rate(book.input_mtok, prompt)
    if is_overfull:
        cost, input_cost = _overfull_cost(record, book)
    else:
        sums = book.calc_price(_usage(record))
        cost, input_cost = float(sums["total_price"]), float(sums["input_price"])
    return Price(
        vendor=answer.provider.id,
        model=_name_at_vendor(record.provider, model or record.model),
        cost=cost,
        input_cost=input_cost,
        input=input_rate,
        cache_read=_rate(book.cache_read_mtok, prompt, input_rate),
        cache_write=_rate(book.cache_write_mtok, prompt, input_rate),
        has_cache_read=book.cache_read_mtok is not None,
        base_input=_rate(book.input_mtok, 0),
        base_output=_rate(book.output_mtok, 0),
    )


@cache
def is_list_price(label: str) -> bool:
    """Whether calls under this provider label are priced by their model alone."""
    is_known = find_provider_by_id(get_snapshot().providers, label) is not None
    return label in flat_rate_labels() or not is_known


@cache
def _provider_ids(label: str, model: str) -> tuple[str | None, ...]:
    """What to ask genai_prices for, in turn: the label's own provider, or whose model it is."""
    if label in flat_rate_labels():
        return (None, label)
    if _name_at_vendor(label, model) != model:
        return (label,)
    return (None,) if is_list_price(label) else (label,)


def _name_at_vendor(label: str, model: str) -> str:
    """The model's own name: one gateway writes the provider in front of it."""
    provider, slash, name = model.partition("/")
    if label == "litellm" and slash and find_provider_by_id(get_snapshot().providers, provider):
        return name
    return model


def _answer(record: UsageRecord, model: str) -> tuple[PriceCalculation, bool]:
    """What calc_price says, and whether it refused the counts (more cached than there is)."""
    try:
        return _ask(record, model, _usage(record)), False
    except ValueError:
        return _ask(record, model, Usage()), True


def _usage(record: UsageRecord) -> Usage:
    return Usage(
        input_tokens=record.prompt_tokens,
        cache_read_tokens=record.cached_tokens or 0,
        cache_write_tokens=record.cache_write_tokens or 0,
        output_tokens=record.completion_tokens,
    )


def _ruled(record: UsageRecord, answer: PriceCalculation, book: ModelPrice) -> ModelPrice:
    """The price after the provider's own rule for a tier that the book has no price for."""
    tier = tier_of(record)
    rule = published_rule(answer.provider.id, tier)
    if rule is None or _has_price_for(record, answer):
        return book
    rates = dict(vars(book))
    for name in ("input", "output", "cache_read", "cache_write"):
        if rates.get(f"{name}_mtok") is not None:
            times = Decimal(str(rule.get(name, 1)))
            rates[f"{name}_mtok"] = _scaled(rates[f"{name}_mtok"], times)
    return ModelPrice(**rates)


def _has_price_for(record: UsageRecord, answer: PriceCalculation) -> bool:
    """Whether the book itself knows what the model costs at the call's tier by then."""
    if not any(model is answer.model for model in answer.provider.models):
        return False
    context = price_context(tier_of(record))
    return any(
        all(context.get(key) == value for key, value in variant.when.items())
        and (variant.constraint is None or variant.constraint.active(record.ts))
        for variant in answer.model.price_variants or []
    )


def _scaled(rate: Decimal | TieredPrices, times: Decimal) -> Decimal | TieredPrices:
    if isinstance(rate, Decimal):
        return rate * times
    tiers = [Tier(start=tier.start, price=tier.price * times) for tier in rate.tiers]
    return TieredPrices(base=rate.base * times, tiers=tiers)


def _ask(record: UsageRecord, model: str, usage: Usage) -> PriceCalculation:
    *others, last = _provider_ids(record.provider, model)
    for provider in others:
        with suppress(LookupError):
            return _calculate(record, model, usage, provider)
    return _calculate(record, model, usage, last)


def _calculate(
    record: UsageRecord, model: str, usage: Usage, provider: str | None
) -> PriceCalculation:
    return calc_price(
        usage,
        model,
        provider_id=provider,
        genai_request_timestamp=record.ts,
        price_context=price_context(tier_of(record)),
    )


def _overfull_cost(record: UsageRecord, book: ModelPrice) -> tuple[float, float]:
    """The whole cost and its input part where no uncached part is left."""
    prompt = record.prompt_tokens
    input_rate = _rate(book.input_mtok, prompt)
    input_cost = (record.cached_tokens or 0) * _rate(book.cache_read_mtok, prompt, input_rate)
    input_cost += (record.cache_write_tokens or 0) * _rate(
        book.cache_write_mtok, prompt, input_rate
    )
    output_cost = record.completion_tokens * _rate(book.output_mtok, prompt)
    return input_cost + output_cost + _fee(book), input_cost


def _rate(rate: Decimal | TieredPrices | None, prompt: int, otherwise: float = 0.0) -> float:
    """US dollars per token: the tier that a prompt of this length falls in."""
    if rate is None:
        return otherwise
    if isinstance(rate, TieredPrices):
        reached = [tier.price for tier in rate.tiers if prompt > tier.start]
        return float((reached or [rate.base])[-1]) / 1e6
    return float(rate) / 1e6


def _fee(book: ModelPrice) -> float:
    return float(book.requests_kcount) / 1_000 if isinstance(book.requests_kcount, Decimal) else 0.0
