"""Counts and times of all records of a log, priced or not."""

from dataclasses import dataclass, field
from typing import Self

import narwhals.stable.v2 as nw

from detectors.contract import InvalidRows
from detectors.engines import Calls, Engine, Row
from detectors.frames import CHECKED, CheckedCalls
from detectors.report import spend


@dataclass(slots=True, kw_only=True)
class Records:
    """Counts of the calls without duplicate rows, and the calls until they are taken.

    Times are microseconds since 1970 in UTC. `models` counts the calls of each (provider, model).
    """

    count: int
    duplicate_rows: int
    valid_pct: float
    invalid: InvalidRows
    overfull: int
    first_us: int | None
    last_us: int | None
    models: list[Row]
    _calls: list[Calls] = field(repr=False)

    @classmethod
    def of(cls, log: CheckedCalls, engine: Engine) -> Self:
        calls = engine.keep(engine.drop_duplicate_rows(log.calls, CHECKED))
        cached = nw.col("cached_tokens") + nw.col("cache_write_tokens")
        is_overfull = (cached > nw.col("prompt_tokens")).cast(nw.Int64)
        totals = calls.with_columns(is_overfull.alias("overfull")).select(
            nw.len().alias("count"),
            nw.col("at_us").min().alias("first"),
            nw.col("at_us").max().alias("last"),
            nw.col("overfull").sum(),
        )
        (total,) = engine.fetch(totals)
        return cls(
            count=total["count"],
            duplicate_rows=log.rows - log.invalid.count - total["count"],
            valid_pct=log.valid_pct,
            invalid=log.invalid,
            overfull=int(total["overfull"] or 0),
            first_us=total["first"] if total["count"] else None,
            last_us=total["last"] if total["count"] else None,
            models=spend.count_models(calls, engine),
            _calls=[calls],
        )

    def take_calls(self) -> Calls:
        """Return the calls once, so that the caller can free them."""
        return self._calls.pop()

    @property
    def days(self) -> int:
        """Return the calendar days in UTC from the first call to the last, both included."""
        if self.first_us is None or self.last_us is None:
            return 1
        return self.last_us // spend.DAY_US - self.first_us // spend.DAY_US + 1
