"""Impacts: sums over flagged calls per detector, kind and group."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec
import polars as pl

from detectors.engine import Calls, Row
from detectors.report.counting.projection import DAY_US
from detectors.report.money import add_usd, collect_usd, rounded, usd
from detectors.rules import DETECTORS
from detectors.rules.detector import INFORMATIONAL, Detector, Kind

FINDING: Final = ("detector", "kind", "group")
_KEY: Final = (*FINDING, "in_window")
_KEY_TYPES: Final = {"detector": pl.Int8, "kind": pl.Int8, "group": pl.Int32}
# Whether an impact has no low end, and whether an end of it is what it states.
_LIMITS: Final = ("has_no_low", "is_low_stated", "is_high_stated")
_DOLLARS: Final = ("cost_usd", "saving_usd", "low_usd", "high_usd")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A (route, provider, model) with its priced calls and their tokens, and those in the window.

    `last_us` is the time of its last call in the window, or of its last call if there is none.
    """

    log: int
    route: str
    provider: str
    model: str
    calls: int
    tokens: int
    spend_usd: Decimal
    window_calls: int
    window_usd: Decimal
    last_us: int

    @property
    def shown_route(self) -> str:
        """Return the tag or endpoint, or the model if both are absent."""
        return self.route or self.model


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one kind of one detector in one group. Dollars are rounded to 9 decimals.

    `calls`, `spend_usd` (of these calls) and the dollars to save are the window's; `ever_usd`,
    `first_us` and `last_us` are of all flagged calls, of which there are `ever_calls`. The low end
    is at least 0 and at most the impact, and the high end at least the impact; `summed_low_usd` and
    `summed_high_usd` are the sums of the calls' ends.
    """

    detector_index: int
    kind_index: int
    group_number: int
    group: Group
    calls: int
    spend_usd: Decimal
    observed_usd: Decimal
    monthly_usd: Decimal
    low_usd: Decimal
    high_usd: Decimal
    summed_low_usd: Decimal
    summed_high_usd: Decimal
    ever_calls: int
    ever_usd: Decimal
    first_us: int
    last_us: int

    @property
    def detector(self) -> Detector:
        return DETECTORS[self.detector_index]

    @property
    def kind(self) -> Kind:
        return self.detector.kinds[self.kind_index]

    @property
    def key(self) -> tuple[int, int, int]:
        return self.detector_index, self.kind_index, self.group_number

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what no other impact of an audit has, whatever the numbers of groups in parts."""
        group = self.group
        label = group.log, group.route, group.provider, group.model
        return self.detector_index, self.kind_index, *label

    @property
    def is_priced(self) -> bool:
        return self.kind.confidence != INFORMATIONAL

    @property
    def finding(self) -> tuple[object, ...]:
        """Return what kinds of one name have in common in a group."""
        group = self.group
        label = group.log, group.route, group.provider, group.model
        return self.detector_index, self.kind.name, *label

    @property
    def labels(self) -> tuple[str, str, str, str]:
        return self.kind.name, self.group.route, self.group.provider, self.group.model


def sum_flagged(flagged: Calls) -> pl.DataFrame:
    """Count the flagged calls and sum their dollars by finding and day, in and out of the window.

    Impacts are added up from these sums, and so is what each finding cost by day.
    """
    at = pl.col("at_us")
    others = [pl.len().alias("calls"), at.min().alias("first_us"), at.max().alias("last_us")]
    by_day = flagged.select(*_KEY, (at // DAY_US).alias("day"), "at_us", *_DOLLARS)
    return collect_usd(by_day, *_DOLLARS, by=[*_KEY, "day"], others=others)


def add_days(by_day: Calls) -> Calls:
    others = [pl.col("calls").sum(), pl.col("first_us").min(), pl.col("last_us").max()]
    return add_usd(by_day, *_DOLLARS, by=_KEY, others=others)


def measure(
    found: Iterable[Row], groups: Mapping[int, Group], factors: Sequence[Decimal]
) -> list[list[Impact]]:
    """Return the impacts of each log, in no order, with the factor of each log's projection."""
    # A finding has a row for its calls in the window, and one for the others.
    rows: dict[tuple[int, ...], list[Row]] = defaultdict(list)
    for row in found:
        rows[tuple(row[name] for name in FINDING)].append(row)
    by_log: list[list[Impact]] = [[] for _ in factors]
    for own in rows.values():
        group = groups[own[0]["group"]]
        factor = factors[group.log]
        window = [row for row in own if row["in_window"]]
        spend, observed, low, high = (_add_up(window, name) for name in _DOLLARS)
        monthly = observed * factor
        by_log[group.log].append(
            Impact(
                detector_index=own[0]["detector"],
                kind_index=own[0]["kind"],
                group_number=own[0]["group"],
                group=group,
                calls=sum(int(row["calls"]) for row in window),
                spend_usd=rounded(spend),
                observed_usd=rounded(observed),
                monthly_usd=rounded(monthly),
                low_usd=rounded(min(max(low * factor, Decimal(0)), monthly)),
                high_usd=rounded(max(high * factor, monthly)),
                summed_low_usd=rounded(low),
                summed_high_usd=rounded(high),
                ever_calls=sum(int(row["calls"]) for row in own),
                ever_usd=rounded(_add_up(own, "saving_usd")),
                first_us=min(row["first_us"] for row in own),
                last_us=max(row["last_us"] for row in own),
            )
        )
    return by_log


def _add_up(rows: Iterable[Row], name: str) -> Decimal:
    return sum((usd(row, name) for row in rows), Decimal(0))


def drop_findings(flagged: Calls, impacts: Sequence[Impact]) -> Calls:
    if not impacts:
        return flagged
    keys = [impact.key for impact in impacts]
    return flagged.join(place_findings(keys), on=FINDING, how="anti")


def limit_lows(flagged: Calls, impacts: Iterable[Impact]) -> Calls:
    """Limit the ends of calls whose impact has an end that is not their sum.

    Low ends become 0 where their sum is negative, and the stated savings where it exceeds these.
    High ends become the stated savings where their sum is below these.
    """
    limits = [(*impact.key, *_limits(impact)) for impact in impacts if any(_limits(impact))]
    if not limits:
        return flagged
    stated = pl.col("saving_usd")
    is_none, is_low, is_high = (pl.col(name) == 1 for name in _LIMITS)
    low = pl.when(is_none).then(pl.lit(0.0)).when(is_low).then(stated).otherwise("low_usd")
    high = pl.when(is_high).then(stated).otherwise("high_usd")
    joined = flagged.join(place_findings(limits, *_LIMITS), on=FINDING, how="left")
    return joined.with_columns(low.alias("low_usd"), high.alias("high_usd")).drop(*_LIMITS)


def _limits(impact: Impact) -> tuple[int, int, int]:
    low, stated, high = impact.summed_low_usd, impact.observed_usd, impact.summed_high_usd
    return int(low < 0), int(low > stated), int(high < stated)


def place_findings(keys: Iterable[tuple[int, ...]], *more: str) -> Calls:
    """Return a frame of the keys of impacts, to join it with flagged calls.

    `more` names the columns after the key.
    """
    schema = {**_KEY_TYPES, **dict.fromkeys(more, pl.Int64)}
    return pl.LazyFrame(list(keys), schema, orient="row")
