"""Reads and checks the negotiated rates that a caller passes.

Everything is checked when the price book is created, so that a mistake is an error and not a wrong
dollar figure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from detectors.contract import FIRST_INSTANT, LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices.agreed.terms import RATES, Discount, Override, Period

Term = TypeVar("Term", Discount, Override)

_DATES: Final = ("from", "until")


def read_discounts(given: Mapping[str, Any]) -> tuple[Discount, ...]:
    """Read the discounts by provider: a share, a share with dates, or a list of these."""
    return _without_overlap(
        Discount(_label(provider, path), _share(entry["share"], path), _period(entry, path))
        for provider, value in given.items()
        for path, entry in _entries(f"discounts[{provider!r}]", value, ("share",))
    )


def read_overrides(given: Mapping[tuple[str, str], Any]) -> tuple[Override, ...]:
    """Read the overrides by provider and model: rates, with or without dates, or a list."""
    found: list[Override] = []
    for key, value in given.items():
        name = f"overrides[{key!r}]"
        if not isinstance(key, tuple) or len(key) != 2:
            raise PriceTermsError(f"{name}: expected a (provider, model) as key")
        for path, entry in _entries(name, value, tuple(RATES)):
            provider, model = (_label(label, path) for label in key)
            rates = {rate: _usd(entry[rate], path, rate) for rate in RATES if rate in entry}
            if not rates:
                raise PriceTermsError(f"{path}: expected at least one of {', '.join(RATES)}")
            found.append(Override(provider, model, rates, _period(entry, path)))
    return _without_overlap(found)


def _entries(
    path: str, value: Any, names: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry with its path, for messages."""
    is_several = isinstance(value, Sequence) and not isinstance(value, str)
    for number, entry in enumerate(value if is_several else [value]):
        where = f"{path}[{number}]" if is_several else path
        if not isinstance(entry, Mapping):
            if names != ("share",):
                raise PriceTermsError(f"{where}: expected a mapping of {', '.join(names)}")
            entry = {"share": entry}
        unknown = [name for name in entry if name not in (*names, *_DATES)]
        if unknown:
            allowed = ", ".join((*names, *_DATES))
            raise PriceTermsError(f"{where}: unknown {unknown[0]!r}; expected some of {allowed}")
        if names == ("share",) and "share" not in entry:
            raise PriceTermsError(f"{where}: a discount needs its share")
        yield where, entry


def _label(label: object, path: str) -> str:
    if not isinstance(label, str) or not label:
        raise PriceTermsError(f"{path}: expected the names of a provider and a model as text")
    return label.lower()


def _share(value: object, path: str) -> Decimal:
    share = _number(value)
    if share is None or not 0 <= share < 1:
        raise PriceTermsError(f"{path}: expected a share from 0 to under 1, such as 0.12 for 12%")
    return share


def _usd(value: object, path: str, name: str) -> Decimal:
    rate = _number(value)
    if rate is None or rate < 0:
        raise PriceTermsError(f"{path}: expected {name} as US dollars, 0 or more")
    return rate


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _period(entry: Mapping[str, Any], path: str) -> Period:
    first, last = (_day(entry.get(name), path, name) for name in _DATES)
    if first and last and last < first:
        raise PriceTermsError(f"{path}: until {last} is before from {first}")
    return Period(first, last)


def _day(value: object, path: str, name: str) -> date | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = date.fromisoformat(value)
    if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
        raise PriceTermsError(f"{path}: expected {name} as a date, such as 2026-01-31")
    if value and not FIRST_INSTANT.date() <= value < LAST_INSTANT.date():
        raise PriceTermsError(f"{path}: expected {name} as a date from 2000 to 2100")
    return value


def _without_overlap(found: Iterable[Term]) -> tuple[Term, ...]:
    """Raise an error if two terms apply to the same provider or model on the same day."""
    kept: list[Term] = []
    for term in found:
        for other in kept:
            if term.concerns == other.concerns and term.period.overlaps(other.period):
                raise PriceTermsError(f"two terms apply on the same day: {other}; {term}")
        kept.append(term)
    return tuple(kept)
