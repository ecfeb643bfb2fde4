"""Reads and checks the negotiated rates that a caller passes.

Everything is checked when the price book is created, so that a mistake is an error and not a wrong
dollar figure. `refuse` takes the error of a term that is then excluded; by default, it raises it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, Final, NoReturn, TypeVar

from detectors.contract import FIRST_INSTANT, LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices.agreed.bounds import MAX_DECIMALS, MAX_NAME, MAX_USD, read_number
from detectors.prices.agreed.terms import RATES, Discount, Override, Period
from detectors.wording.labels import shortened

Term = TypeVar("Term", Discount, Override)
Where = tuple[str | int, ...]
Refuse = Callable[[PriceTermsError], Any]

_DATES: Final = ("from", "until")


def raise_error(error: PriceTermsError) -> NoReturn:
    raise error


def read_discounts(given: Mapping[str, Any], refuse: Refuse = raise_error) -> tuple[Discount, ...]:
    """Read the discounts by provider: a share, a share with dates, or a list of these."""
    found: list[tuple[Where, Discount]] = []
    for provider, value in given.items():
        where = ("discounts", str(provider))
        for at, entry in _entries(where, value):
            try:
                checked = _check_entry(at, entry, ("share",))
                if "share" not in checked:
                    raise wrong(at, "a discount needs its share")
                share = read_number(checked["share"])
                if share is None or not share < 1:
                    raise wrong(at, "expected a share from 0 to under 1, such as 0.12 for 12%")
                period = _period(checked, at)
                found.append((at, Discount(read_name(provider, at), share, period)))
            except PriceTermsError as error:
                refuse(error)
    return _without_overlap(found, refuse)


def read_overrides(
    given: Mapping[tuple[str, str], Any], refuse: Refuse = raise_error
) -> tuple[Override, ...]:
    """Read the overrides by provider and model: rates, with or without dates, or a list."""
    found: list[tuple[Where, Override]] = []
    for key, value in given.items():
        where: Where = ("overrides", *(map(str, key) if isinstance(key, tuple) else [str(key)]))
        for at, entry in _entries(where, value):
            try:
                provider, model = read_names(key, at)
                checked = _check_entry(at, entry, tuple(RATES))
                rates = {}
                for name in (each for each in RATES if each in checked):
                    rate = read_number(checked[name])
                    if rate is None:
                        raise wrong(
                            (*at, name),
                            f"expected US dollars from 0 to {MAX_USD:,} with at most "
                            f"{MAX_DECIMALS} decimals",
                        )
                    rates[name] = rate
                if not rates:
                    raise wrong(at, f"expected at least one of {', '.join(RATES)}")
                found.append((at, Override(provider, model, rates, _period(checked, at))))
            except PriceTermsError as error:
                refuse(error)
    return _without_overlap(found, refuse)


def wrong(where: Where, expected: str) -> PriceTermsError:
    table, *keys = where
    named = "".join(
        f"[{key}]" if isinstance(key, int) else f".{shortened(key, 60)}" for key in keys
    )
    return PriceTermsError(f"{table}{named}: {expected}", where)


def read_names(key: object, where: Where) -> tuple[str, str]:
    if not isinstance(key, tuple) or len(key) != 2:
        raise wrong(where, "expected a (provider, model) as key")
    return read_name(key[0], where), read_name(key[1], where)


def read_name(name: object, where: Where) -> str:
    """Return the name of a provider or a model in lower case."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise wrong(where, f"expected provider and model as text of 1 to {MAX_NAME} characters")
    return name.lower()


def _entries(where: Where, value: Any) -> Iterator[tuple[Where, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (((*where, number), entry) for number, entry in enumerate(value))
    else:
        yield where, value


def _check_entry(where: Where, entry: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        if names != ("share",):
            raise wrong(where, f"expected a mapping of {', '.join(names)}")
        return {"share": entry}
    unknown = [name for name in entry if name not in (*names, *_DATES)]
    if unknown:
        allowed, name = ", ".join((*names, *_DATES)), shortened(str(unknown[0]), 60)
        raise wrong((*where, str(unknown[0])), f"unknown {name!r}; expected some of {allowed}")
    return entry


def _period(entry: Mapping[str, Any], where: Where) -> Period:
    days: list[date | None] = []
    for name in _DATES:
        value = entry.get(name)
        if isinstance(value, str):
            with suppress(ValueError):
                value = date.fromisoformat(value)
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            raise wrong((*where, name), "expected a date, such as 2026-01-31")
        if value and not FIRST_INSTANT.date() <= value < LAST_INSTANT.date():
            raise wrong((*where, name), "expected a date from 2000 to 2100")
        days.append(value)
    first, last = days
    if first and last and last < first:
        raise wrong(where, f"until {last} is before from {first}")
    return Period(first, last)


def _without_overlap(found: Sequence[tuple[Where, Term]], refuse: Refuse) -> tuple[Term, ...]:
    """Refuse the later of two terms that apply to the same provider or model on the same day."""
    last: dict[tuple[str, ...], Term] = {}
    refused: set[Where] = set()
    for where, term in sorted(found, key=lambda each: each[1].period.first or date.min):
        before = last.get(term.concerns)
        if before is not None and before.period.overlaps(term.period):
            refuse(wrong(where, f"two terms apply on the same day: {before}; {term}"))
            refused.add(where)
        else:
            last[term.concerns] = term
    return tuple(term for where, term in found if where not in refused)
