"""Rates of one model at one moment and prompt length, read out of the price book's own records.

No frame and no lookup of names here: see `book` and `table`.
"""

from dataclasses import dataclass
from decimal import Decimal

from genai_prices.types import ModelPrice, TieredPrices

TOKENS_PER_MTOK = 1_000_000
REQUESTS_PER_KCOUNT = 1_000


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars per token, and per request.

    Without a rate of its own a cached token costs what any input token costs.
    """

    input_usd: float
    cache_read_usd: float
    cache_write_usd: float
    output_usd: float
    request_usd: float
    has_cache_read: bool
    has_cache_write: bool

    def is_cheaper_than(self, other: "Rates") -> bool:
        """Cheaper on both input and output."""
        return self.input_usd < other.input_usd and self.output_usd < other.output_usd


def find_rates(price: ModelPrice, prompt_tokens: int) -> Rates | None:
    """The rates for a prompt of this length; none where the price has no rate for input tokens.

    A model billed only by characters, pages or hours, or listed without any price, has no rate
    that token counts could be multiplied by: its cost is unknown, not zero. A model with an input
    rate alone (embeddings) bills no output, as the price book's own calculation has it.
    """

    def usd(key: str, units: int = TOKENS_PER_MTOK) -> float | None:
        rate = getattr(price, key)
        return None if rate is None else float(_tier(rate, prompt_tokens) / units)

    input_usd = usd("input_mtok")
    if input_usd is None:
        return None
    cache_read_usd, cache_write_usd = usd("cache_read_mtok"), usd("cache_write_mtok")
    return Rates(
        input_usd=input_usd,
        cache_read_usd=input_usd if cache_read_usd is None else cache_read_usd,
        cache_write_usd=input_usd if cache_write_usd is None else cache_write_usd,
        output_usd=usd("output_mtok") or 0.0,
        request_usd=usd("requests_kcount", REQUESTS_PER_KCOUNT) or 0.0,
        has_cache_read=cache_read_usd is not None,
        has_cache_write=cache_write_usd is not None,
    )


def tier_starts(price: ModelPrice) -> set[int]:
    """The prompt lengths beyond which another rate holds."""
    tiered = (rate for rate in vars(price).values() if isinstance(rate, TieredPrices))
    return {tier.start for rate in tiered for tier in rate.tiers}


def _tier(rate: Decimal | TieredPrices, prompt_tokens: int) -> Decimal:
    """A long prompt pays the higher rate on all of its tokens, not only on those beyond."""
    if isinstance(rate, Decimal):
        return rate
    reached = [tier.price for tier in rate.tiers if prompt_tokens > tier.start]
    return reached[-1] if reached else rate.base
