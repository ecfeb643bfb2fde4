"""The boundaries where a model's rates change: days, times of day, and prompt lengths."""

from collections.abc import Iterable
from datetime import UTC, datetime, time

import msgspec
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint, TimeOfDateConstraint

from detectors.prices.rates import tier_starts

_Constraint = StartDateConstraint | TimeOfDateConstraint | None


class Boundaries(msgspec.Struct, frozen=True):
    """The times, the seconds of the UTC day and the prompt lengths at which rates change.

    At a time or a second itself the new rate applies; at a length itself the old one.
    """

    moments: frozenset[datetime] = frozenset()
    day_seconds: frozenset[int] = frozenset()
    prompt_tokens: frozenset[int] = frozenset()

    def __or__(self, other: "Boundaries") -> "Boundaries":
        return Boundaries(
            self.moments | other.moments,
            self.day_seconds | other.day_seconds,
            self.prompt_tokens | other.prompt_tokens,
        )

    def within(self, first: datetime, last: datetime, longest: int) -> "Boundaries":
        """Keep the boundaries between two calls and below the longest prompt."""
        return Boundaries(
            frozenset(moment for moment in self.moments if first < moment <= last),
            self.day_seconds - {0},
            frozenset(start for start in self.prompt_tokens if start < longest),
        )

    @classmethod
    def of(cls, info: ModelInfo) -> "Boundaries":
        if isinstance(info.prices, list):
            return cls._between([(price.constraint, price.prices) for price in info.prices])
        return cls._between([(None, info.prices)])

    @classmethod
    def of_variants(cls, info: ModelInfo) -> "Boundaries":
        variants = info.price_variants or ()
        return cls._between([(variant.constraint, variant.prices) for variant in variants])

    @classmethod
    def _between(cls, prices: Iterable[tuple[_Constraint, ModelPrice]]) -> "Boundaries":
        moments: set[datetime] = set()
        day_seconds: set[int] = set()
        lengths: set[int] = set()
        for constraint, price in prices:
            lengths |= tier_starts(price)
            if isinstance(constraint, StartDateConstraint):
                moments.add(datetime.combine(constraint.start_date, time(), UTC))
            elif constraint is not None:
                day_seconds |= {
                    _utc_second(constraint.start_time),
                    _utc_second(constraint.end_time),
                }
        return cls(frozenset(moments), frozenset(day_seconds), frozenset(lengths))


def _utc_second(clock: time) -> int:
    """Return the second of the UTC day; the book's times without a zone are in UTC."""
    moment = datetime.combine(datetime(1970, 1, 1, tzinfo=UTC), clock, clock.tzinfo or UTC)
    moment = moment.astimezone(UTC)
    return moment.hour * 3600 + moment.minute * 60 + moment.second
