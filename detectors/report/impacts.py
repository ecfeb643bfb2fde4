"""Impacts: sums over flagged calls per detector, kind and group, and their rank."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls, Row
from detectors.report.money import rounded, split, sums, usd
from detectors.rules import DETECTORS
from detectors.rules.detector import INFORMATIONAL, MARGIN, Detector, Kind

FINDING: Final = ("detector", "kind", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A (route, provider, model) with its priced calls; `last_us` is the time of its last call."""

    log: int
    route: str
    provider: str
    model: str
    calls: int
    last_us: int
    spend_usd: Decimal

    @property
    def shown_route(self) -> str:
        """Return the tag or endpoint, or the model if both are absent."""
        return self.route or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The result of one kind of one detector in one group. Dollars are rounded to 9 decimals."""

    detector_index: int
    kind_index: int
    group_number: int
    group: Group
    calls: int
    observed_usd: Decimal
    monthly_usd: Decimal

    @property
    def detector(self) -> Detector:
        return DETECTORS[self.detector_index]

    @property
    def kind(self) -> Kind:
        return self.detector.kinds[self.kind_index]

    @property
    def is_priced(self) -> bool:
        return self.kind.confidence != INFORMATIONAL

    @property
    def rank(self) -> tuple[int, Decimal, str, str, str, str]:
        """Return the sort key within the detector: most expensive first, ties by label."""
        labels = (self.group.route, self.group.provider, self.group.model)
        return (self.detector_index, -self.monthly_usd, self.kind.name, *labels)


def sum_flagged(flagged: Calls) -> Calls:
    """Count the flagged calls and sum their savings by detector, kind and group."""
    sums_of_kinds = split(flagged, "saving_usd").group_by(*FINDING)
    return sums_of_kinds.agg(nw.len().alias("calls"), *sums("saving_usd"))


def measure(
    found: Iterable[Row], groups: Mapping[int, Group], days: Sequence[int], thresholds: Thresholds
) -> list[Impact]:
    """Return the impacts, in no order, with the observed days of each log.

    A priced kind that saves nothing is not a finding.
    """
    impacts = []
    for row in found:
        observed = usd(row, "saving_usd")
        group = groups[row["group"]]
        impact = Impact(
            detector_index=row["detector"],
            kind_index=row["kind"],
            group_number=row["group"],
            group=group,
            calls=row["calls"],
            observed_usd=rounded(observed),
            monthly_usd=rounded(observed * thresholds.days_per_month / days[group.log]),
        )
        if not impact.is_priced or observed > Decimal(MARGIN):
            impacts.append(impact)
    return impacts


def is_below_floor(impact: Impact, thresholds: Thresholds) -> bool:
    return impact.is_priced and float(impact.monthly_usd) < thresholds.floor_usd


def number(impacts: Iterable[Impact]) -> dict[str, Impact]:
    """Number the impacts by rank: d1-001, d1-002, …, d2-001.

    The IDs of a detector with a thousand findings have more digits, so that they sort by number.
    """
    ranked = sorted(impacts, key=lambda impact: impact.rank)
    totals = Counter(impact.detector_index for impact in ranked)
    counts: Counter[int] = Counter()
    numbered = {}
    for impact in ranked:
        counts[impact.detector_index] += 1
        width = max(3, len(str(totals[impact.detector_index])))
        short = impact.detector.id.partition("_")[0]
        numbered[f"{short}-{counts[impact.detector_index]:0{width}}"] = impact
    return numbered
