"""When calls came and how long they took: counts by hour and by latency, which can be added up."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from math import ceil
from typing import Final

from msgspec import Struct

from detectors.contract.findings import FindingDay
from detectors.contract.report import CLOCK_MARGIN, Report

HOURS: Final = 24
# Latencies are counted in steps of 5%, so a percentile is off by 2.5% at most, and the counts of
# several models or routes add up, which their percentiles do not.
LATENCY_STEP: Final = 1.05


class Traffic(Struct, frozen=True, kw_only=True):
    """The calls of one route, provider and model, priced or not.

    `hours` counts them by hour of the day in UTC. `latencies` counts those with a latency: step
    `n` has latencies from `LATENCY_STEP ** n` milliseconds to the next step; step 0 also less.
    """

    route: str
    provider: str
    model: str
    calls: int
    hours: Sequence[int]
    latencies: Mapping[int, int]


class TrafficWindow(Struct, frozen=True, kw_only=True):
    """The traffic of an account's calls in a window, most calls first.

    Only the routes and models with the most calls are listed, so that its size has a limit.
    """

    first_call: datetime
    last_call: datetime
    traffic: Sequence[Traffic]


class CallWindow(Struct, frozen=True, kw_only=True):
    """Which calls an audit of an account reads, and how many others its report mentions.

    The window has some days (UTC) and ends with the newest call that is not in the future at the
    time of the audit, which is `now`. Its days are whole, so that what was spent in it is the sum
    of what was spent on each. `duplicates` were dropped when the files were merged.
    `future_calls` are in files that are not read.
    """

    days: int
    now: datetime
    duplicates: int = 0
    future_calls: int = 0

    @property
    def until(self) -> datetime:
        """Return the latest time of a call that is not dated in the future."""
        return self.now + CLOCK_MARGIN

    def after(self, newest: datetime) -> datetime:
        """Return the moment after which the window begins if this is its newest call."""
        first = newest.astimezone(UTC).date() - timedelta(days=self.days - 1)
        return datetime.combine(first, time(), UTC) - timedelta(microseconds=1)


class AuditedWindow(Struct, frozen=True, kw_only=True):
    """What an audit of an account publishes: its report, and what other pages read of it."""

    report: Report
    finding_days: Sequence[FindingDay]
    traffic: TrafficWindow | None


def add_hours(traffic: Iterable[Traffic]) -> tuple[int, ...]:
    """Return the calls by hour of several routes or models."""
    columns = zip(*(each.hours for each in traffic), strict=True)
    return tuple(map(sum, columns)) or (0,) * HOURS


def add_latencies(traffic: Iterable[Traffic]) -> Mapping[int, int]:
    """Return the calls by latency of several routes or models."""
    added: Counter[int] = Counter()
    for each in traffic:
        added.update(each.latencies)
    return added


def percentile_ms(latencies: Mapping[int, int], percent: int) -> float | None:
    """Return the latency that this percentage of calls does not exceed, or None without calls."""
    rank, passed = ceil(sum(latencies.values()) * percent / 100), 0
    for step, calls in sorted(latencies.items()):
        passed += calls
        if passed >= rank:
            return float(LATENCY_STEP ** (step + 0.5))
    return None
