"""Negotiated rates: what a customer agreed on with a vendor, over the list prices of the book.

How they are read out of what a caller gives is in `agreements`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from detectors.prices.boundaries import Boundaries
from detectors.prices.rates import REQUESTS_PER_KCOUNT, TOKENS_PER_MTOK, Rates
from detectors.wording import figures
from detectors.wording.labels import inert

# Named as in the price book's own records: US dollars per million tokens, per thousand requests.
RATES: Final = {
    "input_mtok": ("input", TOKENS_PER_MTOK),
    "cache_read_mtok": ("cache_read", TOKENS_PER_MTOK),
    "cache_write_mtok": ("cache_write", TOKENS_PER_MTOK),
    "output_mtok": ("output", TOKENS_PER_MTOK),
    "requests_kcount": ("request", REQUESTS_PER_KCOUNT),
}
CACHE_RATES: Final = frozenset({"cache_read", "cache_write"})


@dataclass(frozen=True, slots=True)
class Period:
    """Days in UTC, the first and the last included; none is an open end."""

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
        """When it begins, and when it is over."""
        days = [self.first, self.last and self.last + timedelta(days=1)]
        return frozenset(datetime.combine(day, time(), UTC) for day in days if day)

    def __str__(self) -> str:
        parts = [f"from {self.first}" if self.first else "", f"until {self.last}"]
        return " ".join(part for part in parts if part and part != "until None")


@dataclass(frozen=True, slots=True)
class Discount:
    """A share off every rate of a provider."""

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


@dataclass(frozen=True, slots=True)
class Override:
    """Rates of a model by the names of the price book, as they were given."""

    provider: str
    model: str
    rates: Mapping[str, Decimal]
    period: Period

    @property
    def concerns(self) -> tuple[str, ...]:
        return (self.provider, self.model)

    @property
    def is_whole(self) -> bool:
        """Whether a call can be priced by these rates alone."""
        return {"input_mtok", "output_mtok"} <= self.rates.keys()

    @property
    def usd(self) -> dict[str, float]:
        """The same per token and per request."""
        return {RATES[key][0]: float(rate / RATES[key][1]) for key, rate in self.rates.items()}

    def __str__(self) -> str:
        rates = ", ".join(f"{key} {figures.rate(amount)}" for key, amount in self.rates.items())
        return f"{inert(self.provider)} {inert(self.model)}: {rates} {self.period}".rstrip()


@dataclass(frozen=True, slots=True)
class Terms:
    """What was agreed on for one model."""

    discounts: tuple[Discount, ...] = ()
    overrides: tuple[Override, ...] = ()

    @property
    def boundaries(self) -> Boundaries:
        periods = [one.period for one in self.discounts]
        periods += [one.period for one in self.overrides]
        return Boundaries(moments=frozenset().union(*(period.moments for period in periods)))

    def negotiate(self, listed: Rates, base: Rates, at: datetime) -> Rates:
        """The agreed rates where the list has these.

        `base` is the list for a short prompt at the standard tier, which is what an override is
        stated for: a longer prompt or another tier moves it in the proportion of the list. Cache
        rates that are not overridden move in proportion to the input rate. Any other rate is
        discounted.
        """
        overrides = (override.usd for override in self.overrides if override.period.holds(at))
        override = next(overrides, {})
        shares = (float(term.share) for term in self.discounts if term.period.holds(at))
        share = next(shares, 0.0)
        own, short = listed.own(), base.own()
        agreed = {name: rate * (1 - share) for name, rate in own.items()}
        for name, rate in override.items():
            agreed[name] = rate * own[name] / short[name] if short.get(name) else rate
        if "input" in override and own["input"]:
            # Nobody negotiates input and leaves its cache reads at the list price.
            moved = agreed["input"] / own["input"]
            implied = CACHE_RATES & own.keys() - override.keys()
            agreed |= {name: own[name] * moved for name in implied}
        return Rates.of(agreed)
