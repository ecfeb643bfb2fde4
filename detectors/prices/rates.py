"""The rates of one model at one time and prompt length, from the price book's records.

Lookup by name is in `book`, pricing of frames in `table`.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec
from genai_prices.types import ModelPrice

from detectors.prices import units

TOKENS_PER_MTOK = 1_000_000


class Rates(msgspec.Struct, frozen=True):
    """US dollars per unit: `own` are the rates that the model has, by usage of the price book.

    Without a cache rate, a cached token costs as much as any input token, and without a one-hour
    rate, a token written for an hour as much as any written token.
    """

    own: Mapping[str, float]

    @property
    def input_usd(self) -> float:
        return self.own.get(units.INPUT, 0.0)

    @property
    def cache_read_usd(self) -> float:
        return self.own.get(units.CACHE_READ, self.input_usd)

    @property
    def cache_write_usd(self) -> float:
        return self.own.get(units.CACHE_WRITE_5M, self._any_write_usd)

    @property
    def cache_write_1h_usd(self) -> float:
        return self.own.get(units.CACHE_WRITE_1H, self._any_write_usd)

    @property
    def _any_write_usd(self) -> float:
        return self.own.get(units.CACHE_WRITE, self.input_usd)

    @property
    def output_usd(self) -> float:
        return self.own.get(units.OUTPUT, 0.0)

    @property
    def request_usd(self) -> float:
        return self.own.get(units.REQUESTS, 0.0)

    def prices(self, measured: Iterable[str]) -> bool:
        """Check whether a call is priced: one that counts these units, besides its tokens.

        A model that is billed only by characters, pages or hours has no rate per token: the cost
        of a call that doesn't count them is unknown, not zero.
        """
        return units.INPUT in self.own or not self.own.keys().isdisjoint(measured)

    def has(self, key: str) -> bool:
        return key in self.own

    def surcharge(self, key: str) -> float:
        """Return what a unit of an optional count costs beyond the rates of the usual counts."""
        if key == units.CACHE_WRITE_1H:
            return self.cache_write_1h_usd - self.cache_write_usd
        return units.surcharge(self.own, key)

    def times(self, multiples: Mapping[str, float]) -> "Rates":
        if not multiples:
            return self
        own = {key: rate * multiples.get(units.purpose(key), 1) for key, rate in self.own.items()}
        return Rates(own)

    def in_proportion(self, other: "Rates", base: "Rates") -> "Rates":
        """Multiply each rate by what the other has for each dollar of the base.

        A rate that the base has not moves as the rate of input or output that it is part of.
        """
        rates = {}
        for key, rate in self.own.items():
            own = key if key in base.own and key in other.own else units.direction(key)
            is_known = base.own.get(own) and own in other.own
            rates[key] = rate * (other.own[own] / base.own[own] if is_known else 1.0)
        return Rates(rates)

    def with_fees_of(self, other: "Rates") -> "Rates":
        """Add the other model's fees for tools that this one has no fee for."""
        fees = {key: rate for key, rate in other.own.items() if units.is_fee(key)}
        return Rates({**fees, **self.own})


# For calls without known rates, where a frame needs numbers.
NO_RATES: Final = Rates({units.INPUT: 0.0})


def find_rates(price: ModelPrice, prompt_tokens: int) -> Rates | None:
    """Return the rates for a prompt of this length; None for a model listed without a price.

    A model with only an input rate (embeddings) bills no output, as in the price book's own
    calculation.
    """
    own: dict[str, float] = {}
    for price_key, rate in vars(price).items():
        unit = None if rate is None else units.find_unit(price_key)
        if unit is not None:
            if not isinstance(rate, Decimal):
                # A long prompt pays the higher rate on all tokens, not only on the excess.
                reached = [tier.price for tier in rate.tiers if prompt_tokens > tier.start]
                rate = reached[-1] if reached else rate.base
            own[unit.usage_key] = float(rate / unit.per)
    return Rates(own) if own else None


def tier_starts(price: ModelPrice) -> set[int]:
    return {tier.start for rate in vars(price).values() for tier in getattr(rate, "tiers", ())}
