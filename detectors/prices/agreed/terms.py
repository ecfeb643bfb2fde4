"""Negotiated rates, which replace the list prices of the book.

Module `agreements` reads them from a caller's arguments.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

import msgspec

from detectors.prices import units
from detectors.prices.boundaries import Boundaries
from detectors.prices.rates import Rates
from detectors.wording import figures
from detectors.wording.labels import inert

# Names of the price book, in US dollars per million tokens or per thousand requests or searches.
RATES: Final = units.priced_units()


class Period(msgspec.Struct, frozen=True):
    first: date | None
    last: date | None

    def holds(self, at: datetime) -> bool:
        day = at.astimezone(UTC).date()
        return (not self.first or self.first <= day) and (not self.last or day <= self.last)

    def overlaps(self, other: "Period") -> bool:
        return (self.first or date.min) <= (other.last or date.max) and (
            other.first or date.min
        ) <= (self.last or date.max)

    @property
    def moments(self) -> frozenset[datetime]:
        days = [self.first, self.last and self.last + timedelta(days=1)]
        return frozenset(datetime.combine(day, time(), UTC) for day in days if day)

    def __str__(self) -> str:
        parts = [f"from {self.first}" if self.first else "", f"until {self.last}"]
        return " ".join(part for part in parts if part and part != "until None")


class Discount(msgspec.Struct, frozen=True):
    provider: str
    share: Decimal
    period: Period

    @property
    def concerns(self) -> tuple[str, ...]:
        return (self.provider,)

    def __str__(self) -> str:
        percent = f"{self.share * 100:f}"
        percent = percent.rstrip("0").rstrip(".") if "." in percent else percent
        return f"{inert(self.provider)}: {percent}% off {self.period}".rstrip()


class Override(msgspec.Struct, frozen=True):
    provider: str
    model: str
    rates: Mapping[str, Decimal]
    period: Period

    @property
    def concerns(self) -> tuple[str, ...]:
        return (self.provider, self.model)

    @property
    def is_whole(self) -> bool:
        """Check whether these rates are enough to price a call."""
        return {"input_mtok", "output_mtok"} <= self.rates.keys()

    @property
    def usd(self) -> dict[str, float]:
        return {
            RATES[key].usage_key: float(rate / RATES[key].per) for key, rate in self.rates.items()
        }

    def __str__(self) -> str:
        rates = ", ".join(f"{key} {figures.rate(amount)}" for key, amount in self.rates.items())
        return f"{inert(self.provider)} {inert(self.model)}: {rates} {self.period}".rstrip()


class AgreedTerms(msgspec.Struct, frozen=True):
    discounts: tuple[Discount, ...] = ()
    overrides: tuple[Override, ...] = ()

    @property
    def boundaries(self) -> Boundaries:
        periods = [discount.period for discount in self.discounts]
        periods += [override.period for override in self.overrides]
        return Boundaries(moments=frozenset().union(*(period.moments for period in periods)))

    def negotiate(self, listed: Rates, base: Rates, at: datetime) -> Rates:
        """Apply the terms to list prices.

        An override is for a short prompt at the standard tier, whose list price is `base`; for a
        longer prompt or another tier it moves in proportion to the list price. Cache rates without
        an override move in proportion to the input rate. All other rates are discounted.
        """
        overrides = (override.usd for override in self.overrides if override.period.holds(at))
        override = next(overrides, {})
        shares = (float(term.share) for term in self.discounts if term.period.holds(at))
        share = next(shares, 0.0)
        own, short = listed.own, base.own
        agreed = {key: rate * (1 - share) for key, rate in own.items()}
        for key, rate in override.items():
            is_listed = key in own and short.get(key)
            agreed[key] = rate * own[key] / short[key] if is_listed else rate
        if units.INPUT in override and own.get(units.INPUT):
            # A contract that lowers the input rate lowers its cache rates too.
            moved = agreed[units.INPUT] / own[units.INPUT]
            agreed |= {key: own[key] * moved for key in cache_rates(own) - override.keys()}
        return Rates(agreed)


def cache_rates(own: Iterable[str]) -> set[str]:
    """Return the usages whose rates move with the input rate."""
    return {key for key in own if units.purpose(key) in ("cache_read", "cache_write")}
