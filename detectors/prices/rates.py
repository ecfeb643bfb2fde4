"""The rates of one model at one time and prompt length, from the price book's records.

Lookup by name is in `book`, pricing of frames in `table`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from genai_prices.types import ModelPrice, TieredPrices

TOKENS_PER_MTOK = 1_000_000
REQUESTS_PER_KCOUNT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per token, and per request.

    Without a cache rate, a cached token costs as much as any input token, and without a one-hour
    rate, a token written for an hour as much as any written token.
    """

    input_usd: float
    cache_read_usd: float
    cache_write_usd: float
    cache_write_1h_usd: float
    output_usd: float
    request_usd: float
    has_cache_read: bool
    has_cache_write: bool
    has_cache_write_1h: bool

    def is_cheaper_than(self, other: "Rates") -> bool:
        """Check that both input and output are cheaper."""
        return self.input_usd < other.input_usd and self.output_usd < other.output_usd

    def own(self) -> dict[str, float]:
        """Return the rates that the model has, by purpose."""
        rates = {"input": self.input_usd, "output": self.output_usd, "request": self.request_usd}
        if self.has_cache_read:
            rates["cache_read"] = self.cache_read_usd
        if self.has_cache_write:
            rates["cache_write"] = self.cache_write_usd
        if self.has_cache_write_1h:
            rates["cache_write_1h"] = self.cache_write_1h_usd
        return rates

    @classmethod
    def of(cls, own: Mapping[str, float]) -> Self:
        """Build rates from the result of `own`."""
        write_usd = own.get("cache_write", own["input"])
        return cls(
            input_usd=own["input"],
            cache_read_usd=own.get("cache_read", own["input"]),
            cache_write_usd=write_usd,
            cache_write_1h_usd=own.get("cache_write_1h", write_usd),
            output_usd=own.get("output", 0.0),
            request_usd=own.get("request", 0.0),
            has_cache_read="cache_read" in own,
            has_cache_write="cache_write" in own,
            has_cache_write_1h="cache_write_1h" in own,
        )

    def times(self, multiples: Mapping[str, float]) -> "Rates":
        """Multiply rates; those without a multiple stay unchanged."""
        return Rates.of({name: rate * multiples.get(name, 1) for name, rate in self.own().items()})


# For calls without known rates, where a frame needs numbers.
NO_RATES = Rates.of({"input": 0.0})


def find_rates(price: ModelPrice, prompt_tokens: int) -> Rates | None:
    """Return the rates for a prompt of this length; None without a rate for input tokens.

    A model billed only by characters, pages or hours, or listed without a price, has no rate per
    token: its cost is unknown, not zero. A model with only an input rate (embeddings) bills no
    output, as in the price book's own calculation.
    """
    keys = {
        "input": ("input_mtok", TOKENS_PER_MTOK),
        "cache_read": ("cache_read_mtok", TOKENS_PER_MTOK),
        "cache_write": ("cache_write_mtok", TOKENS_PER_MTOK),
        "cache_write_1h": ("cache_write_1h_mtok", TOKENS_PER_MTOK),
        "output": ("output_mtok", TOKENS_PER_MTOK),
        "request": ("requests_kcount", REQUESTS_PER_KCOUNT),
    }
    listed = {name: (getattr(price, key), units) for name, (key, units) in keys.items()}
    own = {
        name: float(_tier(rate, prompt_tokens) / units)
        for name, (rate, units) in listed.items()
        if rate is not None
    }
    return Rates.of(own) if "input" in own else None


def tier_starts(price: ModelPrice) -> set[int]:
    """Return the prompt lengths beyond which another rate applies."""
    tiered = (rate for rate in vars(price).values() if isinstance(rate, TieredPrices))
    return {tier.start for rate in tiered for tier in rate.tiers}


def _tier(rate: Decimal | TieredPrices, prompt_tokens: int) -> Decimal:
    """Return the rate: a long prompt pays the higher rate on all tokens, not only on the excess."""
    if isinstance(rate, Decimal):
        return rate
    reached = [tier.price for tier in rate.tiers if prompt_tokens > tier.start]
    return reached[-1] if reached else rate.base
