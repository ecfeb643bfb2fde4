"""The price book as one small document, for an estimate before a file is sent.

    python -m detectors.prices.lookup.compact > service/web/static/upload/prices.json

It has each model's latest rates at the standard tier, by the name without prefix and snapshot. An
audit uses the whole book: rates of other dates, tiers and regions, and an account's own.
"""

import json
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from genai_prices.data_snapshot import get_snapshot

from detectors.contract import LAST_INSTANT
from detectors.prices import model_data, units
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.rates import TOKENS_PER_MTOK, Rates

_LATEST: Final = LAST_INSTANT - timedelta(days=1)
# The model providers' own names come first: a name that several sell is priced as theirs.
_FIRST: Final = ("openai", "anthropic", "google", "mistral", "deepseek", "x-ai", "cohere")
_DIGITS: Final = 9


def compact_prices() -> dict[str, Any]:
    """Return the rates in US dollars per million tokens, by provider and model.

    A model's rates are input, output, cache read, cache write, each request, and then, if long
    prompts cost more, the length and the four rates beyond it. Null is the rate of input.
    """
    book, models = PriceBook(), dict[str, dict[str, list[Any]]]()
    for provider in sorted(get_snapshot().providers, key=lambda each: _rank(each.id)):
        # Of names that differ in their snapshot only, the shortest is the model's own.
        for info in sorted(provider.models, key=lambda each: len(each.id)):
            listing = book.find_listing(provider.id, info.id)
            row = listing and listing.provider == provider.id and _row(listing)
            if row:
                own = models.setdefault(provider.id, {})
                own.setdefault(model_data.base_name(info.id), row)
    return {"version": book.version, "hosts": model_data.host_labels(), "models": models}


def _rank(provider: str) -> tuple[int, str]:
    return (_FIRST.index(provider) if provider in _FIRST else len(_FIRST), provider)


def _row(listing: Listing) -> list[Any] | None:
    rates = listing.find_rates(_LATEST, 0)
    if rates is None:
        return None
    row = [*_numbers(rates), round(rates.request_usd, _DIGITS)]
    starts = sorted(listing.find_boundaries().prompt_tokens - {0})
    for start in starts[:1]:
        beyond = listing.find_rates(_LATEST, start + 1)
        if beyond is not None and _numbers(beyond) != _numbers(rates):
            row += [start, *_numbers(beyond)]
    return row


def _numbers(rates: Rates) -> list[float | None]:
    keys = (units.CACHE_READ, units.CACHE_WRITE, units.CACHE_WRITE_5M)
    has_read, *has_write = map(rates.has, keys)
    return [
        *_per_mtok((rates.input_usd, rates.output_usd)),
        *(_per_mtok([rates.cache_read_usd]) if has_read else [None]),
        *(_per_mtok([rates.cache_write_usd]) if any(has_write) else [None]),
    ]


def _per_mtok(rates: Iterable[float]) -> list[float | None]:
    return [round(rate * TOKENS_PER_MTOK, _DIGITS) for rate in rates]


if __name__ == "__main__":
    json.dump(compact_prices(), sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
