"""Where prices change within one log, and which side of each change a call is on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.engines import Calls
from detectors.prices.book import PriceBook
from detectors.prices.boundaries import Boundaries

PLACE: Final = ("period", "daytime", "length")

_MICROSECONDS: Final = 1_000_000
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Grid:
    """Every change of price that matters to one log, in order."""

    moments: Sequence[datetime]
    day_seconds: Sequence[int]
    prompt_tokens: Sequence[int]

    @classmethod
    def over(cls, book: PriceBook, pairs: Sequence[dict[str, Any]]) -> "Grid":
        """The changes between the first and the last call of a pair, up to its longest prompt."""
        changes = Boundaries()
        for pair in pairs:
            listing = book.find_listing(pair["provider"], pair["model"])
            if listing is not None:
                first, last = to_moment(pair["first"]), to_moment(pair["last"])
                found = listing.find_boundaries(pair.get("service_tier", ""))
                changes |= found.within(first, last, pair["longest"])
        return cls(
            sorted(changes.moments),
            sorted(changes.day_seconds),
            sorted(changes.prompt_tokens),
        )

    @property
    def changing(self) -> list[str]:
        """The columns of a cell's place that differ between calls; most logs have none."""
        changes = {
            "period": self.moments,
            "daytime": self.day_seconds,
            "length": self.prompt_tokens,
        }
        return [name for name, values in changes.items() if values]

    def number(self, calls: Calls) -> Calls:
        """Number each call's period, time of day and prompt length among the changes, if any."""
        second = nw.col("at_us") // _MICROSECONDS % _DAY_SECONDS
        moments = (nw.col("at_us") >= _microseconds(moment) for moment in self.moments)
        places = {
            "period": _count(moments),
            "daytime": _count(second >= start for start in self.day_seconds),
            "length": _count(nw.col("prompt_tokens") > start for start in self.prompt_tokens),
        }
        expressions = [places[name].alias(name) for name in self.changing]
        return calls.with_columns(*expressions) if expressions else calls

    def moment(self, period: int, daytime: int, first: datetime) -> datetime:
        """A moment of the cell, never before the day of the pair's first call.

        All moments of a cell have the same prices. Prices start at midnight UTC, so that the first
        day of a period is whole, and changes before the pair's first call have made no period.
        """
        day = max(self.moments[period - 1], first) if period else first
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(seconds=self.day_seconds[daytime - 1] if daytime else 0)

    def tokens(self, length: int) -> int:
        """A prompt length of the cell."""
        return self.prompt_tokens[length - 1] + 1 if length else 0


def _count(conditions: Iterable[nw.Expr]) -> nw.Expr:
    total = nw.lit(0, nw.Int32)
    for condition in conditions:
        total = total + condition.cast(nw.Int32)
    return total


def to_moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
