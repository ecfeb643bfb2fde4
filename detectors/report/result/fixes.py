"""Writes the text of a finding: its fix and its formula, with its own numbers."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from detectors.contract import Thresholds
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.rates import NO_RATES, TOKENS_PER_MTOK, Rates
from detectors.report.counting.projection import DAY_US, EPOCH, Projection
from detectors.report.impacts import Impact
from detectors.rules.detector import INFORMATIONAL, FlaggedCalls
from detectors.wording.figures import fine_usd, length


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
