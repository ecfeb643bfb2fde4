"""What the frame says a call costs is what `genai_prices.calc_price` says, over the whole book."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta
from math import isclose
from typing import Any

import genai_prices
import polars as pl
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint, TieredPrices

from detectors.prices.book import PriceBook
from detectors.prices.lookup.published import tier_context
from tests.detectors.prices.labels import PLANS, is_completed, labelled
from tests.detectors.prices.pricing import price_calls

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
_TIERS = ("batch", "flex", "priority", "fast")
# (prompt, read, written, completion): also with more cache than prompt.
_COUNTS = [(0, 0, 0, 0), (1, 0, 0, 1), (9_001, 4_000, 3_000, 700), (5_000, 0, 5_000, 3)]
_OVERFULL = [(100, 90, 20, 5), (100, 300, 0, 5)]
_FEW_COUNTS = [_COUNTS[2], _OVERFULL[1]]


def _prices(info: ModelInfo) -> list[tuple[Any, ModelPrice]]:
    """Every price of the model, those of other tiers included, with what it depends on."""
    variants = [(variant.constraint, variant.prices) for variant in info.price_variants or ()]
    if isinstance(info.prices, ModelPrice):
        return [(None, info.prices), *variants]
    return [(one.constraint, one.prices) for one in info.prices] + variants


def _moments(info: ModelInfo) -> Iterator[datetime]:
    """On, just before and just after every change of price."""
    yield _NOON
    tick = timedelta(microseconds=1)
    for constraint, _ in _prices(info):
        if isinstance(constraint, StartDateConstraint):
            start = datetime.combine(constraint.start_date, time(), UTC)
            yield from (start - tick, start, start + timedelta(hours=25))
        elif constraint is not None:
            for clock in (constraint.start_time, constraint.end_time):
                at = datetime.combine(_NOON.date(), clock).replace(tzinfo=UTC)
                yield from (at - tick, at, at + tick)


def _counts(info: ModelInfo, *, in_full: bool) -> Iterator[tuple[int, int, int, int]]:
    yield from _COUNTS + _OVERFULL if in_full else _FEW_COUNTS
    for _, price in _prices(info):
        for rate in vars(price).values():
            if isinstance(rate, TieredPrices):
                for tier in rate.tiers:
                    yield from ((tier.start + more, 10, 20, 30) for more in (-1, 0, 1))


def _calls(tiers: Iterable[str] = ("",), *, in_full: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "at_us": (at - _EPOCH) // timedelta(microseconds=1),
            "provider": provider.id,
            "model": label,
            "service_tier": tier,
            "prompt_tokens": counts[0],
            "cached_tokens": counts[1],
            "cache_write_tokens": counts[2],
            "completion_tokens": counts[3],
        }
        for provider, info, label in labelled()
        if provider.id not in PLANS
        for tier in tiers
        for at in dict.fromkeys(_moments(info))
        if not tier or _is_in_force(info, tier, at)
        for counts in dict.fromkeys(_counts(info, in_full=in_full))
    ]


def _is_in_force(info: ModelInfo, tier: str, at: datetime) -> bool:
    """Whether the book itself has a price for this tier at this moment."""
    return any(
        variant.when.items() <= tier_context(tier).items()
        and (variant.constraint is None or variant.constraint.active(at))
        for variant in info.price_variants or ()
    )


def _book_says(call: dict[str, Any]) -> float:
    """The book's own answer, where the cached tokens are the prompt if they exceed it."""
    usage = genai_prices.Usage(
        input_tokens=max(call["prompt_tokens"], _cached(call)),
        cache_read_tokens=call["cached_tokens"],
        cache_write_tokens=call["cache_write_tokens"],
        output_tokens=call["completion_tokens"],
    )
    at = _EPOCH + timedelta(microseconds=call["at_us"])
    answer = genai_prices.calc_price(
        usage,
        call["model"],
        provider_id=call["provider"],
        genai_request_timestamp=at,
        price_context=tier_context(call["service_tier"]),
    )
    return float(answer.total_price)


def _cached(call: dict[str, Any]) -> int:
    return int(call["cached_tokens"] + call["cache_write_tokens"])


def _price(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frame = pl.LazyFrame(calls)
    return price_calls(frame, PriceBook()).collect().rows(named=True)


@pytest.fixture(scope="module")
def priced() -> list[dict[str, Any]]:
    return _price(_calls())


def _compare(calls: list[dict[str, Any]]) -> tuple[int, int]:
    """How many calls the book priced alike, and how many of them had more cache than prompt."""
    for call in calls:
        expected = _book_says(call)
        is_equal = isclose(call["cost_usd"], expected, rel_tol=1e-9, abs_tol=1e-18)
        assert is_equal or is_completed(call), call
    return len(calls), sum(_cached(call) > call["prompt_tokens"] for call in calls)


def test_no_model_of_the_book_is_missing() -> None:
    models = sum(len(provider.models) for provider in get_snapshot().providers)
    assert len(labelled()) == models > 2_000


def test_it_agrees_with_the_book_on_every_model(priced: list[dict[str, Any]]) -> None:
    compared, overfull = _compare(priced)
    assert compared > 3_000
    assert overfull > 1_000


@pytest.mark.stress
def test_it_agrees_with_the_book_on_all_counts() -> None:
    compared, overfull = _compare(_price(_calls(in_full=True)))
    assert compared > 10_000
    assert overfull > 1_000


@pytest.mark.parametrize("in_full", [False, pytest.param(True, marks=pytest.mark.stress)])
def test_it_agrees_at_every_tier_that_the_book_has_prices_for(*, in_full: bool) -> None:
    calls = _price(_calls(_TIERS, in_full=in_full))
    compared, _ = _compare(calls)
    assert compared > 1_000
    assert {call["service_tier"] for call in calls} == set(_TIERS)


@pytest.mark.parametrize("in_full", [False, pytest.param(True, marks=pytest.mark.stress)])
def test_without_a_tier_price_the_providers_rule_or_the_standard_price_applies(
    *, in_full: bool
) -> None:
    calls = [
        call | {"service_tier": tier}
        for call in _calls(in_full=in_full)
        for tier in _TIERS
        if call["provider"] in ("openai", "azure", "anthropic", "google", "groq")
        and not _is_in_force(_info(call), tier, _EPOCH + timedelta(microseconds=call["at_us"]))
    ]
    numbered = [call | {"place": place} for place, call in enumerate(calls)]
    standard = {
        call["place"]: call for call in _price([one | {"service_tier": ""} for one in numbered])
    }
    seen, book = set(), PriceBook()
    for call in _price(numbered):
        listed = standard[call["place"]]["cost_usd"]
        listing = book.find_listing(call["provider"], call["model"])
        assert listing is not None
        at = _EPOCH + timedelta(microseconds=call["at_us"])
        lacks = listing.lacks_tier(at, call["service_tier"])
        seen.add((call["provider"], call["service_tier"], lacks))
        if lacks:
            assert isclose(call["cost_usd"], listed, rel_tol=1e-12, abs_tol=1e-12)
        elif call["service_tier"] in ("batch", "flex") and call["provider"] != "groq":
            half = (listed - _fee(call)) / 2 + _fee(call)
            assert _cached(call) or isclose(call["cost_usd"], half, rel_tol=1e-9, abs_tol=1e-18)
    known = {("openai", "batch"), ("openai", "priority"), ("anthropic", "batch"), ("groq", "flex")}
    assert {(provider, tier, False) for provider, tier in known} < seen
    assert {("anthropic", "priority", True), ("groq", "priority", True)} < seen


def _info(call: dict[str, Any]) -> ModelInfo:
    return get_snapshot().find_provider_model(call["model"], None, call["provider"], None)[1]


def _fee(call: dict[str, Any]) -> float:
    at = _EPOCH + timedelta(microseconds=call["at_us"])
    fee = _info(call).get_prices(at).requests_kcount
    return float(fee) / 1_000 if fee is not None and not isinstance(fee, TieredPrices) else 0.0


def test_it_leaves_unpriced_only_what_has_no_rate_for_input_tokens(
    priced: list[dict[str, Any]],
) -> None:
    known = {(call["provider"], call["model"]) for call in priced}
    unpriced = {(call["provider"], call["model"]) for call in _calls()} - known
    assert unpriced
    for provider_id, model in unpriced:
        _, info = get_snapshot().find_provider_model(model, None, provider_id, None)
        assert all(price.input_mtok is None for _, price in _prices(info))
