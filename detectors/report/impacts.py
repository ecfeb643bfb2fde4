"""Impacts: sums over flagged calls per detector, kind and group."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines import Calls, Engine, Row
from detectors.report.money import rounded, sum_usd, usd
from detectors.rules import DETECTORS
from detectors.rules.detector import INFORMATIONAL, Detector, Kind

FINDING: Final = ("detector", "kind", "group")


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
    is at least 0 and at most the impact; `summed_low_usd` is the sum of the calls' low ends.
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
    def is_priced(self) -> bool:
        return self.kind.confidence != INFORMATIONAL

    @property
    def finding(self) -> tuple[int, str, int]:
        """Return what kinds of one name have in common in a group."""
        return self.detector_index, self.kind.name, self.group_number

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """Return the sort key of impacts with equal dollars."""
        return self.kind.name, self.group.route, self.group.provider, self.group.model


def sum_flagged(flagged: Calls) -> Calls:
    """Count the flagged calls and sum their dollars by detector, kind and group."""
    is_in, names = nw.col("in_window"), ("cost_usd", "saving_usd", "low_usd", "high_usd")
    in_window = [nw.when(is_in).then(nw.col(name)).otherwise(0.0).alias(name) for name in names]
    dollars = flagged.with_columns(
        nw.col("saving_usd").alias("ever_usd"), is_in.cast(nw.Int64).alias("calls"), *in_window
    )
    others = [
        nw.len().alias("ever_calls"),
        nw.col("calls").sum(),
        nw.col("at_us").min().alias("first_us"),
        nw.col("at_us").max().alias("last_us"),
    ]
    return sum_usd(dollars, *names, "ever_usd", by=FINDING, others=others)


def measure(
    found: Iterable[Row], groups: Mapping[int, Group], factors: Sequence[Decimal]
) -> list[list[Impact]]:
    """Return the impacts of each log, in no order, with the factor of each log's projection."""
    by_log: list[list[Impact]] = [[] for _ in factors]
    for row in found:
        group = groups[row["group"]]
        by_log[group.log].append(_impact(row, group, factors[group.log]))
    return by_log


def _impact(row: Row, group: Group, factor: Decimal) -> Impact:
    observed = usd(row, "saving_usd")
    monthly, high = observed * factor, usd(row, "high_usd") * factor
    return Impact(
        detector_index=row["detector"],
        kind_index=row["kind"],
        group_number=row["group"],
        group=group,
        calls=row["calls"],
        spend_usd=rounded(usd(row, "cost_usd")),
        observed_usd=rounded(observed),
        monthly_usd=rounded(monthly),
        low_usd=rounded(min(max(usd(row, "low_usd") * factor, Decimal(0)), monthly)),
        high_usd=rounded(max(high, monthly)),
        summed_low_usd=rounded(usd(row, "low_usd")),
        ever_calls=row["ever_calls"],
        ever_usd=rounded(usd(row, "ever_usd")),
        first_us=row["first_us"],
        last_us=row["last_us"],
    )


def drop_findings(flagged: Calls, keys: Sequence[tuple[int, int, int]], engine: Engine) -> Calls:
    """Drop the flagged calls of the impacts with these keys."""
    if not keys:
        return flagged
    return flagged.join(place_findings(keys, flagged, engine), on=list(FINDING), how="anti")


def limit_lows(flagged: Calls, impacts: Iterable[Impact], engine: Engine) -> Calls:
    """Limit the low ends of calls whose impact has a low end that is not their sum.

    They become 0 where their sum is negative, and the stated savings where it exceeds these.
    """
    limits = [
        (*impact.key, int(impact.summed_low_usd > 0))
        for impact in impacts
        if impact.summed_low_usd < 0 or impact.summed_low_usd > impact.observed_usd
    ]
    if not limits:
        return flagged
    placed = place_findings(limits, flagged, engine, "limit")
    low, limit = nw.col("low_usd"), nw.col("limit")
    limited = nw.when(limit == 1).then(nw.col("saving_usd")).otherwise(nw.lit(0.0))
    joined = flagged.join(placed, on=list(FINDING), how="left")
    lows = nw.when(limit.is_null()).then(low).otherwise(limited).alias("low_usd")
    return joined.with_columns(lows).drop("limit")


def place_findings(
    keys: Iterable[tuple[int, ...]], flagged: Calls, engine: Engine, *more: str
) -> Calls:
    """Copy the keys of impacts to the engine of the flagged calls, in the types of their columns.

    `more` names the columns after the key.
    """
    kinds = flagged.collect_schema()
    schema = dict.fromkeys([*FINDING, *more], pl.Int64)
    placed = engine.place(pl.DataFrame(list(keys), schema, orient="row"), flagged)
    return placed.with_columns(*[nw.col(name).cast(kinds[name]) for name in FINDING])
