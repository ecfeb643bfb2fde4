"""Selects what a report lists as findings, and what it only counts."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from detectors.contract import PastFinding, Remainder, Thresholds, WiderLimits
from detectors.report.counting.projection import Projection, iso_time
from detectors.report.impacts import Impact
from detectors.rules import DETECTORS
from detectors.rules.detector import MARGIN

_LEAST: Final = Decimal(str(MARGIN))
_MOST_PAST: Final = 50


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The impacts of one log.

    Attributes
    ----------
    listed : dict of str to Impact
        The findings by ID, ranked within their detector.
    priced, informational : tuple of Impact
        Every finding, listed or not. Priced ones enter the headline.
    losing : tuple of Impact
        Priced ones that save nothing in the window: they are no findings and enter no sum.
    wider : tuple of Impact
        What enters only the upper end of the headline: kinds that are not reported.
    past : tuple of Impact
        Findings whose calls all lie before the window, most expensive first.
    """

    listed: Mapping[str, Impact]
    priced: tuple[Impact, ...]
    informational: tuple[Impact, ...]
    losing: tuple[Impact, ...]
    wider: tuple[Impact, ...]
    past: tuple[Impact, ...]
    below_floor: int

    @classmethod
    def of(
        cls, impacts: Sequence[Impact], projection: Projection, thresholds: Thresholds
    ) -> "Selection":
        """Select among the impacts of a log with this projection."""
        reported = [impact for impact in impacts if impact.kind.is_reported]
        wider = [impact for impact in impacts if not impact.kind.is_reported and impact.calls]
        live = [impact for impact in reported if impact.calls]
        saving = [each for each in live if each.is_priced and each.observed_usd > _LEAST]
        more: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
        for impact in wider:
            more[impact.finding] += impact.high_usd
        priced = [
            replace(impact, high_usd=impact.high_usd + more[impact.finding])
            if impact.finding in more
            else impact
            for impact in saving
        ]
        informational = [impact for impact in live if not impact.is_priced]
        floor = [each for each in priced if float(each.monthly_usd) >= thresholds.floor_usd]
        by_impact = sorted(floor, key=lambda each: (-each.monthly_usd, *_order(each)))
        by_spend = sorted(informational, key=lambda each: (-each.spend_usd, *_order(each)))
        past = [
            impact
            for impact in reported
            if impact.last_us < projection.from_us
            and (impact.ever_usd > _LEAST or not impact.is_priced)
        ]
        ranked = [
            *by_impact[: thresholds.max_findings],
            *by_spend[: thresholds.max_informational_findings],
        ]
        # The impacts of each detector have numbers in their order: d1-001, d1-002, …, d2-001. Those
        # of a detector with a thousand findings have more digits, so that they sort by number.
        totals = Counter(impact.detector_index for impact in ranked)
        counts, listed = Counter[int](), dict[str, Impact]()
        for impact in ranked:
            counts[impact.detector_index] += 1
            width = max(3, len(str(totals[impact.detector_index])))
            short = impact.detector.id.partition("_")[0]
            listed[f"{short}-{counts[impact.detector_index]:0{width}}"] = impact
        return cls(
            listed=listed,
            priced=tuple(priced),
            informational=tuple(informational),
            losing=tuple(each for each in live if each.is_priced and each.observed_usd <= _LEAST),
            wider=tuple(wider),
            past=tuple(
                sorted(past, key=lambda each: (-each.ever_usd, each.detector_index, each.labels))
            ),
            below_floor=len(priced) - len(floor),
        )

    def sections(self) -> dict[str, Any]:
        listed = {impact.identity for impact in self.listed.values()}
        remainders = []
        for index, detector in enumerate(DETECTORS):
            priced, informational = (
                [
                    each
                    for each in some
                    if each.detector_index == index and each.identity not in listed
                ]
                for some in (self.priced, self.informational)
            )
            if priced or informational:
                remainder = Remainder(
                    detector=detector.id,
                    findings=len(priced),
                    informational=len(informational),
                    monthly_cost_impact_usd=sum((i.monthly_usd for i in priced), Decimal(0)),
                )
                remainders.append(remainder)
        found = {impact.finding for impact in self.priced}
        only: dict[tuple[int, str], list[Impact]] = defaultdict(list)
        for impact in self.wider:
            if impact.finding not in found:
                only[impact.detector_index, impact.kind.name].append(impact)
        wider = [
            WiderLimits(
                detector=DETECTORS[index].id,
                kind=kind,
                groups=len(impacts),
                monthly_cost_impact_usd=sum((i.high_usd for i in impacts), Decimal(0)),
            )
            for (index, kind), impacts in sorted(only.items())
        ]
        return {
            "remainders": tuple(remainders),
            "no_longer_happening": tuple(
                PastFinding(
                    detector=impact.detector.id,
                    kind=impact.kind.name,
                    route=impact.group.shown_route,
                    provider=impact.group.provider,
                    model=impact.group.model,
                    calls=impact.ever_calls,
                    confidence=impact.kind.confidence,
                    first_seen=iso_time(impact.first_us),
                    last_seen=iso_time(impact.last_us),
                    observed_cost_impact_usd=impact.ever_usd,
                )
                for impact in self.past[:_MOST_PAST]
            ),
            "other_past_findings": len(self.past[_MOST_PAST:]),
            "wider_limits": tuple(wider),
        }


def _order(impact: Impact) -> tuple[object, ...]:
    return impact.detector_index, impact.labels
