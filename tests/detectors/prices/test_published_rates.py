"""What calls cost at tiers, in regions and with units that the book lacks, worked by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from detectors.prices.book import PriceBook
from detectors.prices.model_data import read
from tests.cases import data_of, each_case
from tests.detectors.prices.pricing import price_calls

TABLES = data_of(__file__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")


def _cost(provider: str, model: str, day: str, **counted: Any) -> float:
    at = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    call = {
        "at_us": (at - _EPOCH) // timedelta(microseconds=1),
        "provider": provider,
        "model": model,
        **dict.fromkeys(_COUNTS, 0),
        **counted,
    }
    rows = price_calls(pl.LazyFrame([call]), PriceBook()).collect()
    [cost] = rows["cost_usd"].to_list()
    return float(cost)


def _of(prompt: int, completion: int = 0, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


@each_case(
    ("model", "day", "input_usd", "output_usd"),
    data_of(__file__)["priority_costs_its_multiple_before_the_book_wrote_it_down"],
)
def test_priority_costs_its_multiple_before_the_book_wrote_it_down(
    model: str, day: str, input_usd: float, output_usd: float
) -> None:
    cost = _cost("openai", model, day, service_tier="priority", **_of(50_000, 2_000))
    assert cost == pytest.approx(0.05 * input_usd + 0.002 * output_usd, rel=1e-12)


@each_case(
    ("tier", "model", "day", "usd"),
    [
        # Cached input at $0.125 costs half in batches and at flex, also on the day before.
        ("batch", "gpt-5", "2026-10-13", 0.0625),
        ("batch", "gpt-5", "2026-10-14", 0.0625),
        ("flex", "gpt-5", "2026-10-11", 0.0625),
        # For o3 the list has no discount of cached input in batches.
        ("batch", "o3", "2026-10-13", 0.5),
        ("batch", "o3", "2026-10-14", 0.5),
    ],
)
def test_cached_input_costs_the_same_before_and_after_a_tier_was_written_down(
    tier: str, model: str, day: str, usd: float
) -> None:
    counts = _of(1_000_000, cached_tokens=1_000_000)
    assert _cost("openai", model, day, service_tier=tier, **counts) == pytest.approx(usd)


@each_case(
    ("model", "day", "times"),
    [
        ("claude-opus-4-6", "2026-03-01", 6),
        ("claude-opus-4-6", "2026-07-23", 6),
        ("claude-opus-4-6", "2026-07-24", 1),
        ("claude-opus-4-7", "2026-05-20", 6),
        ("claude-opus-4-8", "2026-08-20", 2),
        ("claude-opus-5", "2026-08-20", 2),
        ("claude-opus-5-5", "2026-11-01", 2),
    ],
)
def test_fast_mode_has_the_multiple_of_its_model(model: str, day: str, times: int) -> None:
    counts = _of(40_000, 3_000, cached_tokens=10_000, cache_write_tokens=5_000)
    standard = _cost("anthropic", model, day, **counts)
    fast = _cost("anthropic", model, day, service_tier="fast", **counts)
    assert fast == pytest.approx(standard * times, rel=1e-12)


def test_fast_mode_multiplies_the_rates_of_long_prompts() -> None:
    # Until March 13, 2026, prompts beyond 200,000 tokens cost $10 and $37.50: fast $60 and $225.
    counts = _of(300_000, 2_000)
    cost = _cost("anthropic", "claude-opus-4-6", "2026-02-20", service_tier="fast", **counts)
    assert cost == pytest.approx(0.3 * 60 + 0.002 * 225, rel=1e-12)


@each_case(("provider", "model", "day", "usd"), TABLES["long_prompts"])
def test_long_prompts_cost_at_a_host_what_they_do_at_the_model_provider(
    provider: str, model: str, day: str, usd: float
) -> None:
    cost = _cost(provider, model, day, **_of(260_000))
    assert cost == pytest.approx(0.26 * usd, rel=1e-12)


@each_case(("provider", "model", "tier", "times"), TABLES["tiers"])
def test_each_host_has_its_own_tiers(provider: str, model: str, tier: str, times: float) -> None:
    counts = _of(10_000, 500)
    standard = _cost(provider, model, "2026-06-20", **counts)
    special = _cost(provider, model, "2026-06-20", service_tier=tier, **counts)
    assert special == pytest.approx(standard * times, rel=1e-12)


@each_case(("provider", "model", "region", "times"), TABLES["regions"])
def test_a_region_costs_the_surcharge_of_its_provider(
    provider: str, model: str, region: str, times: float
) -> None:
    counts = _of(10_000, 500)
    anywhere = _cost(provider, model, "2026-11-20", **counts)
    there = _cost(provider, model, "2026-11-20", region=region, **counts)
    assert there == pytest.approx(anywhere * times, rel=1e-12)


@each_case(("provider", "model", "counts", "usd"), TABLES["modalities"])
def test_a_modality_or_fee_that_the_book_lacks_is_priced(
    provider: str, model: str, counts: dict[str, Any], usd: float
) -> None:
    assert _cost(provider, model, "2026-06-20", **counts) == pytest.approx(usd, rel=1e-12)


@each_case(("region", "usd"), [("us", 0.8), ("eu", 1.05), ("apac", 0.84)])
def test_nova_has_a_price_in_each_part_of_the_world(region: str, usd: float) -> None:
    model = f"{region}.amazon.nova-pro-v1:0"
    assert _cost("bedrock", model, "2026-06-20", **_of(1_000_000)) == pytest.approx(usd)


@each_case(
    ("name", "tables"),
    [("service_tiers", ("rule", "region")), ("rates", ("rate", "long", "follows", "same"))],
)
def test_every_entry_has_a_source(name: str, tables: tuple[str, ...]) -> None:
    for table in tables:
        assert read(name)[table]
        for entry in read(name)[table]:
            assert entry["source"].startswith("https://")
            assert entry["providers"]
