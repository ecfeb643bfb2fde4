"""Prices of single calls, asked of `genai_prices.calc_price` one by one."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
from genai_prices.types import ModelPrice, PriceCalculation, StartDateConstraint, Tier, TieredPrices

from detectors.contract import UsageRecord
from tests.detectors.reference.catalog import flat_rate_labels
from tests.detectors.reference.tiers import (
    follows,
    own_rates,
    price_context,
    published_rule,
    tier_of,
)

# Record fields beside the five of every price, and the book's names of their units.
_UNITS = {
    "reasoning_tokens": "output_reasoning_tokens",
    "audio_prompt_tokens": "input_audio_tokens",
    "audio_completion_tokens": "output_audio_tokens",
    "image_prompt_tokens": "input_image_tokens",
    "image_completion_tokens": "output_image_tokens",
    "web_searches": "web_searches",
}
# Providers that a log's reader guesses from the form of a response.
_GUESSED = ("openai", "anthropic")
_ANY_TIME = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Price:
    """What one call costs, in US dollars, and the rates per token that led to it.

    `vendor` is the provider that genai_prices found, `model` the name the call has there, and
    `window` the most tokens that the model takes, None where the book does not say.
    """

    vendor: str
    model: str
    cost: float
    input_cost: float
    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    has_cache_read: bool
    has_hour_rate: bool
    window: int | None


def price(record: UsageRecord, model: str | None = None) -> Price | None:
    """Return the price of a call, or its price at another model; None where that is unknown."""
    name = model or record.model
    found = _book(record.provider, name, tier_of(record), _when(record, name))
    if found is None:
        return None
    answer, book = found
    # More cached tokens than the prompt has leave no uncached part.
    cached = (record.cached_tokens or 0) + (record.cache_write_tokens or 0)
    length = max(record.prompt_tokens, cached)
    sums = book.calc_price(usage(record, length))
    plain = rate(book.input_mtok, length, 0.0)
    written = rate(book.cache_write_mtok, length, plain)
    return Price(
        vendor=answer.provider.id,
        model=_name_at_vendor(record.provider, name),
        cost=float(sums["total_price"]),
        input_cost=float(sums["input_price"]),
        input=plain,
        cache_read=rate(book.cache_read_mtok, length, plain),
        cache_write=written,
        cache_write_1h=rate(book.cache_write_1h_mtok, length, written),
        has_cache_read=book.cache_read_mtok is not None,
        has_hour_rate=book.cache_write_1h_mtok is not None,
        window=answer.model.context_window,
    )


def _when(record: UsageRecord, model: str) -> datetime:
    """Return the minute of the call, or its day in UTC if the price is the same all day."""
    if _changes_within_days(record.provider, model, tier_of(record)):
        return record.ts.replace(second=0, microsecond=0)
    return record.ts.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@cache
def _changes_within_days(label: str, model: str, tier: str) -> bool:
    try:
        known = _ask(label, model, tier, _ANY_TIME).model
    except LookupError:
        return False
    lines = known.prices if isinstance(known.prices, list) else []
    constraints = [each.constraint for each in (*lines, *(known.price_variants or ()))]
    return any(not isinstance(each, StartDateConstraint | None) for each in constraints)


@cache
def _book(
    label: str, model: str, tier: str, ts: datetime
) -> tuple[PriceCalculation, ModelPrice] | None:
    """Return what genai_prices says of a model at that time, and the rates that follow from it."""
    try:
        answer = _ask(label, model, tier, ts)
    except LookupError:
        return None
    rates = answer.model_price
    if rates.input_mtok is None and rates.output_mtok is None:
        return None
    return answer, _priced(answer, label, model, tier, ts)


def usage(record: UsageRecord, length: int) -> Usage:
    """Return a call's counts, with this length of the prompt."""
    cached, written = record.cached_tokens or 0, record.cache_write_tokens or 0
    hour = min(getattr(record, "cache_write_1h_tokens", None) or 0, written)
    counts: dict[str, Any] = {
        "input_tokens": length,
        "cache_read_tokens": cached,
        "cache_write_tokens": written,
        "cache_write_1h_tokens": hour,
        "output_tokens": record.completion_tokens,
    }
    counts |= {unit: getattr(record, field, None) or 0 for field, unit in _UNITS.items()}
    return Usage(**counts)


def rate(known: Decimal | TieredPrices | None, length: int, otherwise: float) -> float:
    """Return US dollars per token: the tier that a prompt of this length falls in."""
    if known is None:
        return otherwise
    if isinstance(known, TieredPrices):
        reached = [tier.price for tier in known.tiers if length > tier.start]
        return float((reached or [known.base])[-1]) / 1e6
    return float(known) / 1e6


@cache
def is_list_price(label: str) -> bool:
    """Check whether calls under this provider label are priced by their model alone."""
    is_known = find_provider_by_id(get_snapshot().providers, label) is not None
    return label in flat_rate_labels() or not is_known


@cache
def _provider_ids(label: str, model: str) -> tuple[str | None, ...]:
    """Return what to ask genai_prices for, in turn: the label's provider, or whose model it is."""
    if label in flat_rate_labels():
        return (None, label)
    if _name_at_vendor(label, model) != model:
        return (label,)
    if label in _GUESSED:
        return (label, None)
    return (None,) if is_list_price(label) else (label,)


def _name_at_vendor(label: str, model: str) -> str:
    """Return the model's own name; one gateway writes the provider in front of it."""
    provider, slash, name = model.partition("/")
    if label == "litellm" and slash and find_provider_by_id(get_snapshot().providers, provider):
        return name
    return model


def _ask(label: str, model: str, tier: str, ts: datetime) -> PriceCalculation:
    *others, last = _provider_ids(label, model)
    for provider in others:
        with suppress(LookupError):
            return _calculate(model, provider, tier, ts)
    return _calculate(model, last, tier, ts)


def _calculate(model: str, provider: str | None, tier: str, ts: datetime) -> PriceCalculation:
    return calc_price(
        Usage(),
        model,
        provider_id=provider,
        genai_request_timestamp=ts,
        price_context=price_context(tier),
    )


def _priced(
    answer: PriceCalculation, label: str, model: str, tier: str, ts: datetime
) -> ModelPrice:
    """Return the price at a tier, with what our data files add to the book."""
    standard = _standard(_ask(label, model, "", ts), model, ts)
    if not tier:
        return standard
    vendor, context = answer.provider.id, price_context(tier)
    is_own = any(each is answer.model for each in answer.provider.models)
    starts = [
        each.constraint.start_date if isinstance(each.constraint, StartDateConstraint) else date.min
        for each in (answer.model.price_variants or [] if is_own else [])
        if all(context.get(key) == value for key, value in each.when.items())
    ]
    if starts and min(starts) <= ts.date():
        return answer.model_price
    named = published_rule(vendor, model, tier, ts.date(), is_named=True)
    if named is not None:
        return _times(standard, named)
    if starts:
        first = datetime.combine(min(starts), time(), UTC)
        special, base = (_ask(label, model, each, first).model_price for each in (tier, ""))
        return _moved(standard, special, base)
    own = _of_model_provider(vendor, model, ts)
    if own is not None and tier in follows(vendor)["tiers"]:
        theirs = _priced(_calculate(_bare(model), None, tier, ts), own, _bare(model), tier, ts)
        return _moved(standard, theirs, _calculate(_bare(model), None, "", ts).model_price)
    return _times(standard, published_rule(vendor, model, tier, ts.date(), is_named=False) or {})


def _standard(answer: PriceCalculation, model: str, ts: datetime) -> ModelPrice:
    """Return the standard price: a host's long prompts cost what the model provider's do."""
    host, book = answer.provider.id, answer.model_price
    more = {key: Decimal(usd) for key, usd in own_rates(host, model).items()}
    book = ModelPrice(**{**vars(book), **more})
    if _of_model_provider(host, model, ts) is None or any(map(_tiers, vars(book).values())):
        return book
    theirs = _calculate(_bare(model), None, "", ts).model_price
    ours, other = ((each.input_mtok, each.output_mtok) for each in (book, theirs))
    factors = [
        rate(mine, 0, 0.0) / rate(its, 0, 1.0) for mine, its in zip(ours, other, strict=True)
    ]
    if abs(factors[0] - factors[1]) > 0.01 or not 0.9 <= factors[0] <= 1.3:
        return book
    short = ModelPrice(**{key: _at(value, 0) for key, value in vars(theirs).items()})
    return _moved(book, theirs, short)


def _of_model_provider(host: str, model: str, ts: datetime) -> str | None:
    """Return the model provider whose prices a host follows; None if it follows none."""
    if not follows(host):
        return None
    with suppress(LookupError):
        provider = _calculate(_bare(model), None, "", ts).provider.id
        return provider if provider != host else None
    return None


def _bare(model: str) -> str:
    return model.rpartition("/")[2].rpartition("anthropic.")[2]


def _times(price: ModelPrice, times: dict[str, float]) -> ModelPrice:
    """Multiply the rates of these purposes."""
    rates = dict(vars(price))
    for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h"):
        if rates.get(f"{name}_mtok") is not None:
            by = times.get(name, times.get("cache_write", 1) if name == "cache_write_1h" else 1)
            rates[f"{name}_mtok"] = _scaled(rates[f"{name}_mtok"], Decimal(str(by)))
    return ModelPrice(**rates)


def _moved(price: ModelPrice, special: ModelPrice, base: ModelPrice) -> ModelPrice:
    """Multiply each rate by what the special one is of the base, at each length of the prompt."""
    rates = dict(vars(price))
    for key, known in rates.items():
        new, old = getattr(special, key), getattr(base, key)
        if known is None or new is None or old is None:
            continue
        starts = sorted({start for each in (known, new, old) for start in _tiers(each)})
        moved = [
            _at(known, length) * _at(new, length) / (_at(old, length) or 1)
            for length in (0, *(start + 1 for start in starts))
        ]
        tiers = [Tier(start=n, price=usd) for n, usd in zip(starts, moved[1:], strict=True)]
        rates[key] = TieredPrices(base=moved[0], tiers=tiers) if tiers else moved[0]
    return ModelPrice(**rates)


def _tiers(known: Any) -> list[int]:
    return [tier.start for tier in getattr(known, "tiers", ())]


def _at(known: Any, length: int) -> Any:
    """Return the rate for a prompt of this length."""
    if not isinstance(known, TieredPrices):
        return known
    return ([known.base] + [tier.price for tier in known.tiers if length > tier.start])[-1]


def _scaled(known: Decimal | TieredPrices, times: Decimal) -> Decimal | TieredPrices:
    if isinstance(known, Decimal):
        return known * times
    tiers = [Tier(start=tier.start, price=tier.price * times) for tier in known.tiers]
    return TieredPrices(base=known.base * times, tiers=tiers)
