"""Writes the findings of the report, in order, with their evidence and fix."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from detectors.contract import Thresholds
from detectors.prices.book import PriceBook
from detectors.report.counting.projection import Projection, iso_time
from detectors.report.evidence import Detail
from detectors.report.impacts import Impact
from detectors.report.result.document import Finding
from detectors.report.result.fixes import describe, write_formula
from detectors.wording.impact import severity

# Findings with all of their evidence; it would take most of a document with hundreds of findings.
_FULL_EVIDENCE: Final = 50
_SHORT_EVIDENCE: Final = 3


def write_findings(
    numbered: Mapping[str, Impact],
    details: Sequence[Detail],
    *,
    book: PriceBook,
    projection: Projection,
    thresholds: Thresholds,
) -> tuple[Finding, ...]:
    """Write one finding for each impact with its detail, by monthly dollars, ties by id."""
    findings = []
    for (name, impact), detail in zip(numbered.items(), details, strict=True):
        flagged = describe(impact, detail.summary, book, thresholds)
        suggests = impact.detector.suggests_cheaper_model
        finding = Finding(
            id=name,
            detector=impact.detector.id,
            kind=impact.kind.name,
            route=impact.group.shown_route,
            provider=impact.group.provider,
            model=impact.group.model,
            calls=impact.calls,
            severity=severity(impact.monthly_usd, thresholds),
            confidence=impact.kind.confidence,
            monthly_cost_impact_usd=impact.monthly_usd,
            observed_cost_impact_usd=impact.observed_usd,
            fix=impact.detector.advise(flagged),
            suggested_model=flagged.cheaper_model if suggests else None,
            evidence=detail.evidence,
            formula=write_formula(impact, flagged, projection),
            impact_low=impact.low_usd,
            impact_high=impact.high_usd,
            first_seen=iso_time(impact.first_us),
            last_seen=iso_time(impact.last_us),
            is_monthly=projection.kind != "none",
            code=(impact.detector.code and impact.detector.code(flagged)) or UNSET,
        )
        findings.append(finding)
    ranked = sorted(findings, key=lambda f: (-f.monthly_cost_impact_usd, f.id))
    return (*ranked[:_FULL_EVIDENCE], *map(_shorten, ranked[_FULL_EVIDENCE:]))


def _shorten(finding: Finding) -> Finding:
    return replace(finding, evidence=finding.evidence[:_SHORT_EVIDENCE])
