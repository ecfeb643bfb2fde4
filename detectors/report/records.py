"""Counts and times of all records of some logs, priced or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import narwhals.stable.v2 as nw

from detectors.contract import InvalidRows
from detectors.engines import Calls, Engine, Row
from detectors.frames import CHECKED
from detectors.frames.usage_log import ReadRows
from detectors.report import spend


@dataclass(slots=True, kw_only=True)
class Records:
    """Counts of the calls of one log without duplicate rows.

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

    @classmethod
    def of(cls, log: ReadRows, total: Row, models: list[Row]) -> Self:
        return cls(
            count=total["count"],
            duplicate_rows=log.rows - log.invalid.count - total["count"],
            valid_pct=log.valid_pct,
            invalid=log.invalid,
            overfull=int(total["overfull"] or 0),
            first_us=total["first"] if total["count"] else None,
            last_us=total["last"] if total["count"] else None,
            models=models,
        )

    @property
    def days(self) -> int:
        """Return the calendar days in UTC from the first call to the last, both included."""
        if self.first_us is None or self.last_us is None:
            return 1
        return self.last_us // spend.DAY_US - self.first_us // spend.DAY_US + 1


_EMPTY: Row = {"count": 0, "first": None, "last": None, "overfull": 0}


@dataclass(slots=True)
class CountedCalls:
    """The calls of some logs without duplicate rows, until they are taken, and the logs' counts.

    The column in `keys` numbers the logs; there is none for a single log.
    """

    logs: list[Records]
    keys: tuple[str, ...]
    _calls: list[Calls] = field(repr=False)

    @classmethod
    def of(
        cls, logs: Sequence[ReadRows], calls: Calls, engine: Engine, keys: tuple[str, ...] = ()
    ) -> Self:
        calls = engine.keep(engine.drop_duplicate_rows(calls, [*keys, *CHECKED]))
        totals = {row.get("log", 0): row for row in engine.fetch(_total(calls, keys))}
        models: list[list[Row]] = [[] for _ in logs]
        for row in spend.count_models(calls, engine, keys):
            models[row.get("log", 0)].append(row)
        counted = [
            Records.of(log, totals.get(index, _EMPTY), models[index])
            for index, log in enumerate(logs)
        ]
        return cls(counted, keys, [calls])

    def take_calls(self) -> Calls:
        """Return the calls once, so that the caller can free them."""
        return self._calls.pop()


def _total(calls: Calls, keys: Sequence[str]) -> Calls:
    cached = nw.col("cached_tokens") + nw.col("cache_write_tokens")
    is_overfull = (cached > nw.col("prompt_tokens")).cast(nw.Int64)
    totals = (
        nw.len().alias("count"),
        nw.col("at_us").min().alias("first"),
        nw.col("at_us").max().alias("last"),
        nw.col("overfull").sum(),
    )
    counted = calls.with_columns(is_overfull.alias("overfull"))
    return counted.group_by(*keys).agg(*totals) if keys else counted.select(*totals)
