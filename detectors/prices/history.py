"""The days on which the list price of a model changed."""

from collections.abc import Iterator
from datetime import date, timedelta
from math import isclose

from msgspec.structs import replace

from detectors.contract import UNITS
from detectors.prices import units
from detectors.prices.agreed.terms import AgreedTerms
from detectors.prices.listing import Listing
from detectors.prices.rates import Rates
from detectors.wording.figures import rate, short_number

_MAIN = (units.INPUT, units.OUTPUT)
_FIRST = (units.CACHE_READ, units.CACHE_WRITE)
_NAMES = {
    units.INPUT: "input",
    units.OUTPUT: "output",
    units.CACHE_READ: "cached input",
    units.CACHE_WRITE: "cache writes",
}
_DAY = timedelta(days=1)
_HOUR = 3_600  # units that are billed by the hour count seconds


def list_changes(listing: Listing) -> Iterator[tuple[date, str]]:
    """Yield each day on which list prices changed, with those before and after in words.

    These are the rates of short prompts if they changed, and otherwise those of longer ones; of
    input and output, and only if neither changed of something else. A change of a rate that one of
    the account's own replaces on that day is none.
    """
    listed = replace(listing, terms=AgreedTerms(), target=None)
    boundaries = listed.find_boundaries()
    for moment in sorted(boundaries.moments):
        for longer_than in (0, *sorted(boundaries.prompt_tokens)):
            lists, paid = [], []
            for at in (moment - _DAY, moment):
                rates = listed.find_rates(at, longer_than + 1, measured=UNITS) or Rates({})
                base = listed.find_rates(at, 0, measured=UNITS) or rates
                lists.append(rates.own)
                # Terms that begin or end on that day change no list price.
                paid.append(listing.terms.negotiate(rates, base, moment).own)
            before, after = lists
            changed = {
                key
                for key in before.keys() & after.keys()
                if not any(isclose(old[key], new[key]) for old, new in (lists, paid))
            }
            if not changed:
                continue
            keys = [key for key in _MAIN if key in changed]
            keys = keys or [key for key in _FIRST if key in changed] or sorted(changed)[:1]
            per = units.find_per(keys[0])
            words = ", ".join(
                f"{_NAMES.get(key, key.removesuffix('_tokens').replace('_', ' '))} "
                f"{rate(before[key] * per)} → {rate(after[key] * per)}"
                for key in keys
            )
            above = f"prompts over {longer_than:,} tokens, " if longer_than else ""
            clock = " (at 00:00 UTC; other hours may differ)" if boundaries.day_seconds else ""
            unit = "hour" if per == _HOUR else short_number(per)
            yield moment.date(), f"{above}{words} per {unit}{clock}"
            break
