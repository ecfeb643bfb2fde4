"""What was found and what it is worth: sums over flagged calls, and their rank."""

from collections import Counter
from collections.abc import Iterable, Mapping
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
    """A (route, provider, model) with its priced calls; `last_us` is the time of the last one."""

    route: str
    provider: str
    model: str
    calls: int
    last_us: int
    spend_usd: Decimal

    @property
    def shown_route(self) -> str:
        """The tag or endpoint, or the model where neither is given."""
        return self.route or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What one kind of one detector found in one group. Dollars are rounded to 9 decimals."""

    place: int
    kind_place: int
    group_number: int
    group: Group
    calls: int
    observed_usd: Decimal
    monthly_usd: Decimal

    @property
    def detector(self) -> Detector:
        return DETECTORS[self.place]

    @property
    def kind(self) -> Kind:
        return self.detector.kinds[self.kind_place]

    @property
    def is_priced(self) -> bool:
        return self.kind.confidence != INFORMATIONAL

    @property
    def rank(self) -> tuple[int, Decimal, str, str, str, str]:
        """The place among the findings of the detector: the dearest first, ties by label."""
        labels = (self.group.route, self.group.provider, self.group.model)
        return (self.place, -self.monthly_usd, self.kind.name, *labels)


def sum_flagged(flagged: Calls) -> Calls:
    """How many calls each kind of each detector flagged in each group, and what they save."""
    sums_of_kinds = split(flagged, "saving_usd").group_by(*FINDING)
    return sums_of_kinds.agg(nw.len().alias("calls"), *sums("saving_usd"))


def measure(
    found: Iterable[Row], groups: Mapping[int, Group], days: int, thresholds: Thresholds
) -> list[Impact]:
    """What was found, in no order. A priced kind that saves nothing is no finding."""
    impacts = []
    for row in found:
        observed = usd(row, "saving_usd")
        impact = Impact(
            place=row["detector"],
            kind_place=row["kind"],
            group_number=row["group"],
            group=groups[row["group"]],
            calls=row["calls"],
            observed_usd=rounded(observed),
            monthly_usd=rounded(observed * thresholds.days_per_month / days),
        )
        if not impact.is_priced or observed > Decimal(MARGIN):
            impacts.append(impact)
    return impacts


def is_below_floor(impact: Impact, thresholds: Thresholds) -> bool:
    return impact.is_priced and float(impact.monthly_usd) < thresholds.floor_usd


def number(impacts: Iterable[Impact]) -> dict[str, Impact]:
    """The impacts by rank under their ids: d1-001, d1-002, …, d2-001.

    Where a detector has a thousand findings its ids are wider, so that they sort as they count.
    """
    ranked = sorted(impacts, key=lambda impact: impact.rank)
    totals = Counter(impact.place for impact in ranked)
    counts: Counter[int] = Counter()
    numbered = {}
    for impact in ranked:
        counts[impact.place] += 1
        width = max(3, len(str(totals[impact.place])))
        short = impact.detector.id.partition("_")[0]
        numbered[f"{short}-{counts[impact.place]:0{width}}"] = impact
    return numbered
