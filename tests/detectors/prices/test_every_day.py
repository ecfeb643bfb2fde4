"""No price changes between two days unless the book or our data files say so, and no gap is silent.

A tier's first date in the book is often the day on which it was written down: it is no change.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from math import isclose
from typing import Any

import pytest
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint

import detectors
from detectors.contract import UNITS
from detectors.prices import units
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.lookup.published import entries, find_tier_rule, tier_context
from detectors.prices.model_data import read
from detectors.prices.rates import Rates
from tests.cases import each_case
from tests.detectors.prices.labels import PLANS, labelled

TIERS = ("", "batch", "flex", "priority", "fast")
_FIRST, _LAST = date(2025, 1, 1), date(2026, 12, 31)
_NOON = datetime(2026, 6, 10, 12, tzinfo=UTC)
_LENGTHS = (1_000, 300_000)
# So that models that are billed by something else than tokens have rates, too.
_EVERY_UNIT = frozenset(UNITS)

Priced = tuple[ModelInfo, Listing, str]


def _listings(every: int, every_special: int = 1) -> Iterator[Priced]:
    """Yield one of so many models, and of those whose prices change or depend on the tier."""
    book = PriceBook()
    for number, (provider, info, label) in enumerate(labelled()):
        is_special = bool(info.price_variants) or isinstance(info.prices, list)
        if provider.id not in PLANS and number % (every_special if is_special else every) == 0:
            listing = book.find_listing(provider.id, label)
            if listing is not None:
                yield info, listing, label


def _starts(info: Any) -> list[date]:
    """When the book's standard prices of a model change."""
    listed = [] if isinstance(info.prices, ModelPrice) else info.prices or ()
    constraints = [each.constraint for each in listed if hasattr(each, "constraint")]
    return [each.start_date for each in constraints if hasattr(each, "start_date")]


def _said(info: ModelInfo, listing: Listing, tier: str) -> set[date]:
    """Each day on which the book or our data files have another price than the day before."""
    said = set(_starts(info))
    if listing.original is not None:
        said |= set(_starts(listing.original.info))
        said |= _later_variants(listing.original.info, tier)
    said |= _later_variants(info, tier)
    tables = [
        entry
        for name in ("rate", "long")
        for each in (listing, listing.original)
        if each is not None
        for entry in entries(name, each.provider, each.model)
    ]
    tables += [rule for rule in read("service_tiers")["rule"] if rule["tier"] == tier]
    said |= {entry["from"] for entry in tables if "from" in entry}
    said |= {entry["until"] + timedelta(days=1) for entry in tables if "until" in entry}
    return said


def _later_variants(info: Any, tier: str) -> set[date]:
    """When the book's prices of a tier change, without the day on which they begin."""
    context = tier_context(tier) if tier else {}
    starts = [
        getattr(each.constraint, "start_date", date.min)
        for each in info.price_variants or ()
        if each.when.items() <= context.items()
    ]
    return set(sorted(starts)[1:])


def _rates(
    listing: Listing, day: date, tier: str, lengths: tuple[int, ...] = _LENGTHS
) -> list[Rates | None]:
    at = datetime.combine(day, time(12), UTC)
    return [listing.find_rates(at, length, tier, measured=_EVERY_UNIT) for length in lengths]


def _jumps(
    listing: Listing, days: list[date], tier: str, lengths: tuple[int, ...] = _LENGTHS
) -> Iterator[date]:
    """Each of these days whose rates are others than those of the day before it in the list."""
    before = _rates(listing, days[0], tier, lengths)
    for day in days[1:]:
        after = _rates(listing, day, tier, lengths)
        if not all(_are_equal(*pair) for pair in zip(before, after, strict=True)):
            yield day
        before = after


def _are_equal(one: Rates | None, other: Rates | None) -> bool:
    if one is None or other is None:
        return one is other
    # A rate that the book rounds, such as $0.13 for half of $0.25, is no change of price.
    return one.own.keys() == other.own.keys() and all(
        isclose(usd, other.own[key], rel_tol=1e-9) for key, usd in one.own.items()
    )


def _around(listing: Listing, tier: str) -> list[date]:
    """The days beside each change that a listing knows of, and the ends of the two years."""
    moments = listing.find_boundaries(tier).moments
    starts = {moment.date() for moment in moments} | {date(2026, 10, 12), date(2026, 10, 14)}
    near = {start + timedelta(days=days) for start in starts for days in (-1, 0)}
    return sorted({_FIRST, _LAST, *(day for day in near if _FIRST <= day <= _LAST)})


def _check(priced: Priced, days: list[date], tier: str, lengths: tuple[int, ...] = _LENGTHS) -> int:
    info, listing, label = priced
    jumps = set(_jumps(listing, days, tier, lengths))
    silent = jumps - _said(info, listing, tier)
    assert not silent, (listing.provider, label, tier, sorted(silent))
    return len(jumps)


def test_no_price_jumps_at_any_known_date_without_a_change_of_price() -> None:
    jumps = {tier: 0 for tier in TIERS}
    for priced in _listings(every=50, every_special=4):
        for tier in TIERS:
            jumps[tier] += _check(priced, _around(priced[1], tier), tier)
    # Prices do change, at each tier.
    assert jumps[""] > 50
    assert min(jumps.values()) > 50, jumps


@pytest.mark.stress
def test_no_price_jumps_on_any_day_of_two_years_without_a_change_of_price() -> None:
    """Long prompts each day, short ones around changes, and models without dates once a month."""
    days = [_FIRST + timedelta(days=n) for n in range((_LAST - _FIRST).days + 1)]
    for priced in _listings(every=1):
        is_special = any(priced[1].find_boundaries(tier).moments for tier in TIERS)
        for tier in TIERS:
            _check(priced, days if is_special else days[::30], tier, _LENGTHS[-1:])
            _check(priced, _around(priced[1], tier), tier)


@each_case("tier", ["batch", "flex", "priority", "fast"])
def test_the_day_on_which_a_tier_was_written_down_changes_nothing(tier: str) -> None:
    compared = 0
    for info, listing, label in _listings(every=3_000):
        starts = [
            each.constraint.start_date
            for each in info.price_variants or ()
            if each.when.items() <= tier_context(tier).items()
            and isinstance(each.constraint, StartDateConstraint)
        ]
        rule = find_tier_rule(listing.provider, listing.model, tier, _NOON)
        if not starts or min(starts) in _starts(info) or (rule and rule.is_named):
            continue
        first = min(starts)
        days = [first - timedelta(days=1), first]
        assert list(_jumps(listing, days, tier)) == [], (listing.provider, label, first)
        compared += 1
    assert compared > {"batch": 90, "flex": 19, "priority": 20, "fast": 20}[tier]


def _call(provider: str, model: str, minute: int, **more: Any) -> dict[str, Any]:
    at = _NOON + timedelta(minutes=minute)
    labels = {"ts": at, "provider": provider, "model": model}
    return {**labels, "prompt_tokens": 1_000, "completion_tokens": 100, **more}


def _missing(calls: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    quality = detectors.audit(calls).data_quality
    assert quality is not None
    return {(each.provider, each.model, each.name) for each in quality.missing_rates or ()}


@each_case("tier", ["batch", "flex", "priority", "fast"])
def test_a_tier_costs_what_its_source_says_or_is_a_warning(tier: str) -> None:
    """Every gap is a warning: a tier that costs as the standard one, and no source says so."""
    listings = [
        each for each in _listings(every=40, every_special=7) if each[1].find_rates(_NOON, 1_000)
    ]
    calls = [
        _call(listing.provider, label, n, service_tier=tier)
        for n, (_, listing, label) in enumerate(listings)
    ]
    missing = _missing(calls)
    known = 0
    for info, listing, label in listings:
        standard, special = (listing.find_rates(_NOON, 1_000, each) for each in ("", tier))
        rule = find_tier_rule(listing.provider, listing.model, tier, _NOON)
        in_book = any(
            each.when.items() <= tier_context(tier).items() for each in info.price_variants or ()
        )
        costs_the_same = in_book or (rule is not None and not rule.times)
        is_free = standard is not None and not any(standard.own.values())
        is_missing = (listing.provider, label, tier) in missing
        known += not is_missing
        if standard == special and not costs_the_same and not is_free:
            assert is_missing, (listing.provider, label)
        if is_missing:
            assert standard == special
    assert missing
    assert known > 0


@each_case("unit", ["audio_prompt_tokens", "image_completion_tokens", "web_searches"])
def test_a_unit_costs_what_its_source_says_or_is_a_warning(unit: str) -> None:
    key = {
        "audio_prompt_tokens": "input_audio_tokens",
        "image_completion_tokens": "output_image_tokens",
        "web_searches": "web_searches",
    }[unit]
    found = [(each, each[1].find_rates(_NOON, 1_000)) for each in _listings(every=1)]
    listings = [
        each
        for number, (each, rates) in enumerate(found)
        if rates is not None and (rates.has(key) or number % 40 == 0)
    ]
    calls = [
        _call(listing.provider, label, n, **{unit: 50})
        for n, (_, listing, label) in enumerate(listings)
    ]
    missing = _missing(calls)
    priced = 0
    for _, listing, label in listings:
        rates = listing.find_rates(_NOON, 1_000)
        assert rates is not None
        same = entries("same", listing.provider, listing.model)
        is_known = rates.has(key) or any(key in each["units"] for each in same)
        assert is_known is ((listing.provider, label, unit) not in missing), label
        priced += rates.has(key)
    assert missing
    assert priced > 0


def test_parts_of_texts_are_no_gaps() -> None:
    assert not units.is_apart("output_reasoning_tokens")
    assert units.is_apart("input_audio_tokens")
    call = _call("openai", "gpt-5.4", 0, reasoning_tokens=50, image_prompt_tokens=20)
    assert _missing([call]) == set()
