"""The findings of the report: what was found, in order, with evidence and a fix in words."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from detectors.contract import Thresholds
from detectors.notebook.report import Finding
from detectors.prices.book import PriceBook
from detectors.report.evidence import Detail
from detectors.report.fixes import find_sibling, last_rates, write_fix
from detectors.report.formulas import write_formula
from detectors.report.impacts import Impact
from detectors.rules import model_overkill


def write_findings(
    numbered: Mapping[str, Impact],
    details: Sequence[Detail],
    *,
    book: PriceBook,
    days: int,
    thresholds: Thresholds,
) -> tuple[Finding, ...]:
    """One finding for each impact with its detail, by monthly dollars, ties by id."""
    findings = [
        Finding(
            id=name,
            detector=impact.detector.id,
            kind=impact.kind.name,
            route=impact.group.shown_route,
            provider=impact.group.provider,
            model=impact.group.model,
            calls=impact.calls,
            severity=_severity(impact.monthly_usd, thresholds),
            confidence=impact.kind.confidence,
            monthly_cost_impact_usd=impact.monthly_usd,
            observed_cost_impact_usd=impact.observed_usd,
            fix=write_fix(impact, detail.summary, book, thresholds),
            suggested_model=_suggested_model(impact, book),
            evidence=detail.evidence,
            formula=write_formula(
                impact,
                detail.summary,
                rates=last_rates(impact, book),
                sibling=find_sibling(impact, book),
                days=days,
                thresholds=thresholds,
            ),
        )
        for (name, impact), detail in zip(numbered.items(), details, strict=True)
    ]
    return tuple(sorted(findings, key=lambda f: (-f.monthly_cost_impact_usd, f.id)))


def _severity(monthly_usd: Decimal, thresholds: Thresholds) -> str:
    if float(monthly_usd) >= thresholds.high_severity_usd:
        return "high"
    return "medium" if float(monthly_usd) >= thresholds.medium_severity_usd else "low"


def _suggested_model(impact: Impact, book: PriceBook) -> str | None:
    return find_sibling(impact, book) if impact.detector is model_overkill.DETECTOR else None
