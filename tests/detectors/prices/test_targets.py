"""The model that a call could try instead, and what that would have saved."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from genai_prices.data_snapshot import get_snapshot

from detectors.prices import model_data
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.lookup.targets import LADDER, NO_TARGET, SUCCESSOR, is_same_model
from tests.cases import data_of, each_case
from tests.detectors.prices.pricing import price_calls

_DAY = datetime(2026, 11, 2, tzinfo=UTC)
_HOSTS = ("openai", "anthropic", "google", "azure", "aws", "openrouter")


def _listing(provider: str, model: str) -> Listing:
    listing = PriceBook().find_listing(provider, model)
    assert listing is not None
    return listing


def _price(provider: str, model: str, **counts: int) -> dict[str, Any]:
    call = {
        "at_us": (_DAY - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1),
        "provider": provider,
        "model": model,
        "prompt_tokens": 1_000,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "completion_tokens": 100,
    }
    frame = pl.LazyFrame([call | counts])
    [row] = price_calls(frame, PriceBook()).collect().rows(named=True)
    return dict(row)


@each_case(("provider", "model", "kind", "target"), data_of(__file__)["targets"])
def test_a_model_has_its_target_at_the_same_host_under_the_hosts_name(
    provider: str, model: str, kind: int, target: str
) -> None:
    listing = _listing(provider, model)
    assert listing.target is not None
    assert (listing.target_kind, listing.target.model) == (kind, target)
    assert listing.target.provider == listing.provider


@each_case("model", ["gpt-5.4-nano", "claude-haiku-5-5", "claude-haiku-4-5"])
def test_the_cheapest_model_of_a_family_has_no_target(model: str) -> None:
    provider = "openai" if model.startswith("gpt") else "anthropic"
    listing = _listing(provider, model)
    assert (listing.target_kind, listing.target) == (NO_TARGET, None)
    assert _price(provider, model)["target_saving_usd"] == 0


def _listed() -> Iterator[Listing]:
    """Every model of the six providers by the book's own name for it."""
    for provider in get_snapshot().providers:
        if provider.id in _HOSTS:
            for info in provider.models:
                listing = PriceBook().find_listing(provider.id, info.id)
                if listing is not None and listing.info is info:
                    yield listing


def test_every_successor_is_a_model_of_the_book_and_cheaper_today() -> None:
    seen = set()
    for listing in _listed():
        if listing.target_kind != SUCCESSOR or listing.target is None:
            continue
        own, other = listing.find_rates(_DAY, 0), listing.target.find_rates(_DAY, 0)
        assert own is not None
        assert other is not None
        assert other.input_usd < own.input_usd, (listing.provider, listing.model)
        assert other.output_usd < own.output_usd, (listing.provider, listing.model)
        seen.add((listing.provider, model_data.base_name(listing.model)))
    assert {("openai", "gpt-4"), ("aws", "claude-3-opus"), ("openrouter", "gpt-4-turbo")} <= seen
    assert {provider for provider, _ in seen} >= {"openai", "anthropic", "google", "aws"}


def test_no_target_is_another_model_that_a_loose_match_finds() -> None:
    pairs = 0
    for listing in _listed():
        name = model_data.find_successor(listing.provider, listing.model)
        name = name or model_data.find_cheaper_model(listing.provider, listing.model)
        if listing.target is not None:
            assert name is not None
            assert is_same_model(listing.target.info, name)
            pairs += 1
    assert pairs > 150


def test_the_saving_is_the_difference_to_the_targets_rates_with_the_same_cache_use() -> None:
    # claude-3-opus: $15, read $1.50, write $18.75, $75; claude-opus-5-5: $4, $0.20, $5, $20.
    call = _price("anthropic", "claude-3-opus", cached_tokens=300, cache_write_tokens=200)
    own = 500 * 15 + 300 * 1.5 + 200 * 18.75 + 100 * 75
    other = 500 * 4 + 300 * 0.2 + 200 * 5 + 100 * 20
    assert call["target_kind"] == SUCCESSOR
    assert call["cost_usd"] == pytest.approx(own / 1e6, rel=1e-12)
    assert call["target_saving_usd"] == pytest.approx((own - other) / 1e6, rel=1e-12)


@each_case(("prompt", "saves"), [(199_000, True), (199_901, False)])
def test_a_call_that_exceeds_the_targets_window_does_not_count(prompt: int, *, saves: bool) -> None:
    # claude-haiku-4-5 takes 200,000 tokens.
    call = _price("anthropic", "claude-sonnet-4-6", prompt_tokens=prompt)
    assert (call["target_saving_usd"] > 0) is saves
    assert call["target_kind"] == LADDER


def test_a_call_does_not_count_where_neither_window_is_known() -> None:
    call = _price("aws", "openai.gpt-5.5")
    assert call["target_kind"] == LADDER
    assert call["target_saving_usd"] == 0


def test_the_rates_of_a_call_are_columns() -> None:
    call = _price("anthropic", "claude-sonnet-4-5")
    names = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
    rates = [call[f"{name}_usd"] * 1e6 for name in names]
    assert rates == pytest.approx([3, 0.3, 3.75, 6, 15], rel=1e-12)
    assert (call["has_cache_read"], call["has_cache_write_1h"]) == (1, 1)
    plain = _price("openai", "gpt-4-turbo")
    assert [plain[f"{name}_usd"] * 1e6 for name in names[:4]] == pytest.approx([10] * 4)
    assert (plain["has_cache_read"], plain["has_cache_write_1h"]) == (0, 0)
