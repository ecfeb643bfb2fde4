"""What reported counts cost by our prices: the list price, and that with the account's terms.

Fees of tools are not in it: providers bill them apart, and tokens don't carry them.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, Protocol

from service.connections.provider import UsageLine

# A prompt of this length is in the higher band.
_LONG_PROMPTS: Final[Mapping[str, int]] = {"200k-1M": 200_001}
MEASURES: Final = frozenset({"input_characters", "input_audio_seconds"})
_PARTS: Final = frozenset(
    {
        *("input_audio_tokens", "output_audio_tokens", "cache_audio_read_tokens"),
        *("input_image_tokens", "output_image_tokens", "cache_image_read_tokens"),
    }
)


class Book(Protocol):
    """The part of the price book that is needed here."""

    def find_listing(self, provider: str, model: str) -> Any: ...


Price = Callable[[UsageLine], Decimal | None]


def price_with(book: Book, provider: str) -> Price:
    """Return the price of a line, or None for a model or a unit without one."""

    @cache
    def find(model: str) -> Any:
        return book.find_listing(provider, model)

    @cache
    def find_rates(
        model: str, at: datetime, context: str, tier: str, region: str, measured: tuple[str, ...]
    ) -> Any:
        listing = find(model)
        return listing and listing.find_rates(at, _length(context), tier, region, measured)

    def price(line: UsageLine) -> Decimal | None:
        measured = tuple(sorted(MEASURES & line.units.keys()))
        is_counted = line.prompt_tokens or line.completion_tokens or measured
        if not line.model or not is_counted:
            return None if line.model and "images" in line.units else Decimal(0)
        labels = (line.context, line.tier, line.region, measured)
        rates = find_rates(line.model, line.bucket, *labels)
        has_tokens = line.prompt_tokens or line.completion_tokens
        if rates is None or (not has_tokens and not any(map(rates.has, measured))):
            return None
        return cost(line, rates)

    return price


def price_as(listing: Any, line: UsageLine) -> Decimal | None:
    """Return what a line would cost as another listing, such as a model's successor."""
    rates = listing.find_rates(line.bucket, _length(line.context), line.tier, line.region)
    return None if rates is None else cost(line, rates)


def cost(line: UsageLine, rates: Any) -> Decimal:
    """Return the dollars of a line at these rates; they are linear in its counts."""
    short_writes = line.cache_write_tokens - line.cache_write_1h_tokens
    uncached = line.prompt_tokens - line.cached_tokens - line.cache_write_tokens
    counts: list[tuple[int, Any]] = [
        (uncached, rates.input_usd),
        (line.cached_tokens, rates.cache_read_usd),
        (short_writes, rates.cache_write_usd),
        (line.cache_write_1h_tokens, rates.cache_write_1h_usd),
        (line.completion_tokens, rates.output_usd),
        (line.requests, rates.request_usd),
    ]
    for unit, count in line.units.items():
        rate = rates.own.get(unit, 0.0) if unit in MEASURES else 0.0
        if unit in _PARTS:  # beyond the rate of the tokens that it is a part of
            rate = rates.surcharge(unit)
        counts.append((count, float(rate)))
    return sum((count * _exact(rate) for count, rate in counts if count), Decimal(0))


def _length(context: str) -> int:
    return _LONG_PROMPTS.get(context, 0)


@cache
def _exact(rate: float) -> Decimal:
    """Return a rate as its list has it; a float may be off in its last digit."""
    return Decimal(f"{rate:.15g}")
