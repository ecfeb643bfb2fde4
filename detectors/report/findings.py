"""Writes the findings of the report, in order, with their evidence and fix."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from detectors.contract import Thresholds
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.rates import NO_RATES, TOKENS_PER_MTOK, Rates
from detectors.report.counting.projection import DAY_US, EPOCH, Projection, iso_time
from detectors.report.evidence import Detail
from detectors.report.impacts import Impact
from detectors.report.result.document import Finding
from detectors.rules.detector import INFORMATIONAL, FlaggedCalls
from detectors.wording.figures import fine_usd, length
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
    return (
        *ranked[:_FULL_EVIDENCE],
        *(
            replace(each, evidence=each.evidence[:_SHORT_EVIDENCE])
            for each in ranked[_FULL_EVIDENCE:]
        ),
    )


def describe(
    impact: Impact, summary: Mapping[str, Any], book: PriceBook, thresholds: Thresholds
) -> FlaggedCalls:
    """Collect the numbers of a finding; `summary` holds the medians and sums of its calls."""
    group = impact.group
    listing = book.find_listing(group.provider, group.model)
    own = _rates(listing, group.last_us)
    cheaper = listing.target if listing else None
    other = _rates(cheaper, group.last_us)
    return FlaggedCalls(
        kind=impact.kind.name,
        confidence=impact.kind.confidence,
        route=f'"{group.route}"' if group.route else "traffic without tag or endpoint",
        provider=group.provider,
        model=group.model,
        cheaper_model=cheaper.model if cheaper else None,
        thresholds=thresholds,
        calls=impact.calls,
        group_calls=group.window_calls,
        saving_usd=impact.observed_usd,
        input_usd_per_mtok=own.input_usd * TOKENS_PER_MTOK,
        output_usd_per_mtok=own.output_usd * TOKENS_PER_MTOK,
        cache_read_usd_per_mtok=own.cache_read_usd * TOKENS_PER_MTOK,
        cache_write_usd_per_mtok=own.cache_write_usd * TOKENS_PER_MTOK,
        cache_write_1h_usd_per_mtok=own.cache_write_1h_usd * TOKENS_PER_MTOK,
        cheaper_input_usd_per_mtok=other.input_usd * TOKENS_PER_MTOK,
        cheaper_output_usd_per_mtok=other.output_usd * TOKENS_PER_MTOK,
        **summary,
    )


def _rates(listing: Listing | None, at_us: int) -> Rates:
    """Return the rates for a short prompt at that time."""
    if listing is None:
        return NO_RATES
    return listing.find_rates(EPOCH + timedelta(microseconds=at_us), 0) or NO_RATES


def write_formula(impact: Impact, flagged: FlaggedCalls, projection: Projection) -> str:
    """Show how we calculated the dollars of a finding; empty where no savings are claimed.

    The rates shown are those of the group's last call; sums always use each call's own rates.
    """
    if impact.kind.confidence == INFORMATIONAL:
        return ""
    formula = (
        f"{impact.detector.formula(flagged)} in {length(float(projection.window_us / DAY_US))}"
    )
    if projection.kind == "none":
        return f"{formula}."
    month = f"{flagged.thresholds.days_per_month} days"
    return (
        f"{formula}; × {projection.factor:.4g} to project to {month} = "
        f"{fine_usd(impact.monthly_usd)}/month."
    )
