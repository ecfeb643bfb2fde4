"""The price changes within one log, and the position of each call between them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import Any, Final

import msgspec
import polars as pl

from detectors.engine import Calls
from detectors.prices.book import PriceBook
from detectors.prices.boundaries import Boundaries
from detectors.prices.spending import is_long

CELL_POSITION: Final = ("period", "daytime", "length")

_MICROSECONDS: Final = 1_000_000
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Grid(msgspec.Struct, frozen=True):
    """Every change of price that affects one log, in order."""

    moments: Sequence[datetime]
    day_seconds: Sequence[int]
    prompt_tokens: Sequence[int]

    @classmethod
    def over(cls, book: PriceBook, pairs: Sequence[dict[str, Any]]) -> "Grid":
        """Return the changes between the first and last call of each pair."""
        changes = Boundaries()
        for pair in pairs:
            listing = book.find_listing(pair["provider"], pair["model"])
            if listing is not None:
                first, last = to_moment(pair["first"]), to_moment(pair["last"])
                found = listing.find_boundaries(pair.get("service_tier", ""))
                longest = max(pair["longest"], pair["most_cached"])
                changes |= found.within(first, last, longest)
        return cls(
            sorted(changes.moments),
            sorted(changes.day_seconds),
            sorted(changes.prompt_tokens),
        )

    @property
    def changing(self) -> list[str]:
        """Return the columns of `CELL_POSITION` that differ between calls; most logs have none."""
        changes = {
            "period": self.moments,
            "daytime": self.day_seconds,
            "length": self.prompt_tokens,
        }
        return [name for name, values in changes.items() if values]

    def number(self, calls: Calls) -> Calls:
        second = pl.col("at_us") // _MICROSECONDS % _DAY_SECONDS
        microsecond = timedelta(microseconds=1)
        moments = (pl.col("at_us") >= (each - _EPOCH) // microsecond for each in self.moments)
        positions = {
            "period": _count(moments),
            "daytime": _count(second >= start for start in self.day_seconds),
            "length": _count(is_long(start) for start in self.prompt_tokens),
        }
        expressions = [positions[name].alias(name) for name in self.changing]
        return calls.with_columns(*expressions) if expressions else calls

    def moment(self, period: int, daytime: int, first: datetime) -> datetime:
        """Return a time within the cell, not before the day of the pair's first call.

        All times of a cell have the same prices. Prices start at midnight UTC, so the first day of
        a period is a whole day, and changes before the pair's first call do not start a period.
        """
        day = max(self.moments[period - 1], first) if period else first
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(seconds=self.day_seconds[daytime - 1] if daytime else 0)

    def tokens(self, length: int) -> int:
        return self.prompt_tokens[length - 1] + 1 if length else 0


def _count(conditions: Iterable[pl.Expr]) -> pl.Expr:
    """Count the conditions that hold, in sums of sums: engines limit how deep expressions nest."""
    counts = [condition.cast(pl.Int32) for condition in conditions] or [pl.lit(0, pl.Int32)]
    while len(counts) > 1:
        counts = [reduce(add, counts[i : i + 2]) for i in range(0, len(counts), 2)]
    return counts[0]


def to_moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
