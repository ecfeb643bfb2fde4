"""The fix of a finding, in words, with the numbers that led to it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from detectors.contract import Thresholds
from detectors.prices.book import Listing, PriceBook
from detectors.prices.rates import TOKENS_PER_MTOK, Rates
from detectors.report.evidence import EPOCH
from detectors.report.impacts import Impact
from detectors.rules.detector import Facts

_UNKNOWN: Final = Rates(0.0, 0.0, 0.0, 0.0, 0.0, has_cache_read=False, has_cache_write=False)


def find_sibling(impact: Impact, book: PriceBook) -> str | None:
    """The name of the model one tier down."""
    listing = book.find_listing(impact.group.provider, impact.group.model)
    return listing.sibling.model if listing and listing.sibling else None


def write_fix(
    impact: Impact, summary: Mapping[str, Any], book: PriceBook, thresholds: Thresholds
) -> str:
    """What to change and where; `summary` is what `evidence.summarise` says of the calls."""
    group = impact.group
    listing = book.find_listing(group.provider, group.model)
    own = _rates(listing, group.last_us)
    other = _rates(listing.sibling if listing else None, group.last_us)
    return impact.detector.advise(
        Facts(
            kind=impact.kind.name,
            confidence=impact.kind.confidence,
            route=f'"{group.route}"' if group.route else "unlabelled traffic",
            provider=group.provider,
            model=group.model,
            sibling=find_sibling(impact, book),
            thresholds=thresholds,
            calls=impact.calls,
            group_calls=group.calls,
            input_usd_per_mtok=own.input_usd * TOKENS_PER_MTOK,
            output_usd_per_mtok=own.output_usd * TOKENS_PER_MTOK,
            cache_read_usd_per_mtok=own.cache_read_usd * TOKENS_PER_MTOK,
            cache_write_usd_per_mtok=own.cache_write_usd * TOKENS_PER_MTOK,
            sibling_input_usd_per_mtok=other.input_usd * TOKENS_PER_MTOK,
            sibling_output_usd_per_mtok=other.output_usd * TOKENS_PER_MTOK,
            **summary,
        )
    )


def last_rates(impact: Impact, book: PriceBook) -> Rates:
    """The standard rates of the model for a short prompt at the time of the group's last call."""
    group = impact.group
    return _rates(book.find_listing(group.provider, group.model), group.last_us)


def _rates(listing: Listing | None, at_us: int) -> Rates:
    """The rates for a short prompt at that time."""
    if listing is None:
        return _UNKNOWN
    return listing.find_rates(EPOCH + timedelta(microseconds=at_us), 0) or _UNKNOWN
