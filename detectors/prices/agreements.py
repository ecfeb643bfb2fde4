"""Reads negotiated rates out of what a caller gives, and refuses what cannot be meant.

Everything is checked when the price book is made, so that a slip shows as an error and not as wrong
dollars.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from detectors.contract import FIRST_INSTANT, LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices.terms import RATES, Discount, Override, Period

Agreed = TypeVar("Agreed", Discount, Override)

_DATES: Final = ("from", "until")


def read_discounts(given: Mapping[str, Any]) -> tuple[Discount, ...]:
    """The discounts by provider: a share, a share with dates, or several of these."""
    return _without_overlap(
        Discount(_label(provider, place), _share(entry["share"], place), _period(entry, place))
        for provider, value in given.items()
        for place, entry in _entries(f"discounts[{provider!r}]", value, ("share",))
    )


def read_overrides(given: Mapping[tuple[str, str], Any]) -> tuple[Override, ...]:
    """The overrides by provider and model: rates, with dates or without, or several of these."""
    found: list[Override] = []
    for key, value in given.items():
        name = f"overrides[{key!r}]"
        if not isinstance(key, tuple) or len(key) != 2:
            raise PriceTermsError(f"{name}: expected a (provider, model) as key")
        for place, entry in _entries(name, value, tuple(RATES)):
            provider, model = (_label(label, place) for label in key)
            rates = {rate: _usd(entry[rate], place, rate) for rate in RATES if rate in entry}
            if not rates:
                raise PriceTermsError(f"{place}: expected at least one of {', '.join(RATES)}")
            found.append(Override(provider, model, rates, _period(entry, place)))
    return _without_overlap(found)


def _entries(
    place: str, value: Any, names: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each entry with the words for where it stands."""
    is_several = isinstance(value, Sequence) and not isinstance(value, str)
    for number, entry in enumerate(value if is_several else [value]):
        where = f"{place}[{number}]" if is_several else place
        if not isinstance(entry, Mapping):
            if names != ("share",):
                raise PriceTermsError(f"{where}: expected a mapping of {', '.join(names)}")
            entry = {"share": entry}
        strangers = [name for name in entry if name not in (*names, *_DATES)]
        if strangers:
            allowed = ", ".join((*names, *_DATES))
            raise PriceTermsError(f"{where}: unknown {strangers[0]!r}; expected some of {allowed}")
        if names == ("share",) and "share" not in entry:
            raise PriceTermsError(f"{where}: a discount needs its share")
        yield where, entry


def _label(label: object, place: str) -> str:
    if not isinstance(label, str) or not label:
        raise PriceTermsError(f"{place}: expected names of a provider and a model as text")
    return label.lower()


def _share(value: object, place: str) -> Decimal:
    share = _number(value)
    if share is None or not 0 <= share < 1:
        raise PriceTermsError(f"{place}: expected a share from 0 to under 1, as 0.12 for 12%")
    return share


def _usd(value: object, place: str, name: str) -> Decimal:
    rate = _number(value)
    if rate is None or rate < 0:
        raise PriceTermsError(f"{place}: expected {name} as US dollars, 0 or more")
    return rate


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _period(entry: Mapping[str, Any], place: str) -> Period:
    first, last = (_day(entry.get(name), place, name) for name in _DATES)
    if first and last and last < first:
        raise PriceTermsError(f"{place}: until {last} is before from {first}")
    return Period(first, last)


def _day(value: object, place: str, name: str) -> date | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = date.fromisoformat(value)
    if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
        raise PriceTermsError(f"{place}: expected {name} as a date, as 2026-01-31")
    if value and not FIRST_INSTANT.date() <= value < LAST_INSTANT.date():
        raise PriceTermsError(f"{place}: expected {name} as a date from 2000 to 2100")
    return value


def _without_overlap(found: Iterable[Agreed]) -> tuple[Agreed, ...]:
    """Two terms for one day would leave open which of them holds."""
    kept: list[Agreed] = []
    for one in found:
        for other in kept:
            if one.concerns == other.concerns and one.period.overlaps(other.period):
                raise PriceTermsError(f"two terms hold on the same day: {other}; {one}")
        kept.append(one)
    return tuple(kept)
