"""What calls cost at tiers, in regions and with units that the book lacks, worked by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from detectors.prices.book import PriceBook
from detectors.prices.model_data import read
from tests.cases import data_of, each_case
from tests.detectors.prices.pricing import price_calls

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_BEDROCK = "anthropic.claude-sonnet-4-5-20250929-v1:0"


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


@each_case(
    ("provider", "model", "day", "usd"),
    [
        # $3 for short prompts; $6 beyond 200,000 tokens since the beta of August 12, 2025.
        ("anthropic", "claude-sonnet-4-20250514", "2025-08-11", 3),
        ("anthropic", "claude-sonnet-4-20250514", "2025-08-12", 6),
        ("google", "claude-sonnet-4@20250514", "2025-11-20", 6),
        ("bedrock", f"global.{_BEDROCK}", "2025-11-20", 6),
        ("bedrock", f"us.{_BEDROCK}", "2025-11-20", 6.6),
        ("openrouter", "anthropic/claude-sonnet-4.5", "2025-11-20", 6),
        # Claude Opus 4.6 has had one price for all lengths since March 13, 2026.
        ("bedrock", "global.anthropic.claude-opus-4-6-v1:0", "2026-03-12", 10),
        ("bedrock", "global.anthropic.claude-opus-4-6-v1:0", "2026-03-13", 5),
        ("azure", "gpt-5.4", "2026-06-01", 2.5),
    ],
)
def test_long_prompts_cost_at_a_host_what_they_do_at_the_model_provider(
    provider: str, model: str, day: str, usd: float
) -> None:
    cost = _cost(provider, model, day, **_of(260_000))
    assert cost == pytest.approx(0.26 * usd, rel=1e-12)


@each_case(
    ("provider", "model", "tier", "times"),
    [
        ("bedrock", f"global.{_BEDROCK}", "batch", 0.5),
        ("bedrock", "us.amazon.nova-pro-v1:0", "flex", 0.5),
        ("bedrock", "us.amazon.nova-pro-v1:0", "priority", 1.75),
        ("bedrock", "openai.gpt-oss-120b-1:0", "flex", 0.5),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "batch", 0.5),
        ("together", "openai/gpt-oss-120b", "batch", 1),
        ("groq", "openai/gpt-oss-120b", "batch", 0.5),
        ("groq", "llama-3.1-8b-instant", "flex", 1),
        ("mistral", "mistral-large-2512", "batch", 0.5),
        ("google", "gemini-2.5-flash", "priority", 1.8),
        ("google", "claude-sonnet-4-6", "batch", 0.5),
        ("azure", "gpt-5.5", "priority", 2.5),
        ("azure", "gpt-5-mini", "priority", 1.8),
        ("openai", "gpt-5.1-codex-mini", "priority", 1.8),
        ("openai", "gpt-5.3-chat-latest", "priority", 2),
        ("openrouter", "openai/gpt-5.5", "flex", 0.5),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "priority", 1.25),
        ("x-ai", "grok-4.7", "batch", 0.8),
    ],
)
def test_each_host_has_its_own_tiers(provider: str, model: str, tier: str, times: float) -> None:
    counts = _of(10_000, 500)
    standard = _cost(provider, model, "2026-06-20", **counts)
    special = _cost(provider, model, "2026-06-20", service_tier=tier, **counts)
    assert special == pytest.approx(standard * times, rel=1e-12)


@each_case(
    ("provider", "model", "region", "times"),
    [
        ("openai", "gpt-5.5", "eu", 1.1),
        ("openai", "gpt-5.4-nano", "jp", 1.1),
        ("openai", "gpt-6-sol", "us", 1.1),
        ("openai", "gpt-5.2", "eu", 1),
        ("openai", "o4-mini", "eu", 1),
        ("anthropic", "claude-opus-4-7", "us", 1.1),
        ("anthropic", "claude-opus-4-5", "us", 1),
        ("anthropic", "claude-opus-4-7", "global", 1),
        ("google", "claude-sonnet-4-5@20250929", "us-east5", 1.1),
        ("google", "claude-sonnet-4@20250514", "us-east5", 1),
        ("google", "gemini-2.5-pro", "europe-west1", 1),
        ("bedrock", f"global.{_BEDROCK}", "eu-central-1", 1),
    ],
)
def test_a_region_costs_the_surcharge_of_its_provider(
    provider: str, model: str, region: str, times: float
) -> None:
    counts = _of(10_000, 500)
    anywhere = _cost(provider, model, "2026-11-20", **counts)
    there = _cost(provider, model, "2026-11-20", region=region, **counts)
    assert there == pytest.approx(anywhere * times, rel=1e-12)


@each_case(
    ("provider", "model", "counts", "usd"),
    [
        # Text $2.50 and $10, sounds $40 and $80 per million tokens.
        (
            "openai",
            "gpt-4o-audio-preview",
            _of(50_000, 2_000, audio_prompt_tokens=50_000, audio_completion_tokens=2_000),
            0.05 * 40 + 0.002 * 80,
        ),
        # The first snapshot cost more.
        (
            "openai",
            "gpt-4o-audio-preview-2024-10-01",
            _of(50_000, 2_000, audio_prompt_tokens=50_000, audio_completion_tokens=2_000),
            0.05 * 100 + 0.002 * 200,
        ),
        (
            "azure",
            "gpt-4o-mini-audio-preview",
            _of(50_000, 2_000, audio_prompt_tokens=20_000, audio_completion_tokens=2_000),
            0.03 * 0.15 + 0.02 * 10 + 0.002 * 20,
        ),
        # Images at Google's $30 and $120 per million tokens, which OpenRouter passes on.
        (
            "openrouter",
            "google/gemini-2.5-flash-image",
            _of(100, 1_300, image_completion_tokens=1_290),
            (100 * 0.3 + 10 * 2.5 + 1_290 * 30) / 1e6,
        ),
        (
            "openrouter",
            "google/gemini-3-pro-image-preview",
            _of(100, 1_200, image_completion_tokens=1_120),
            (100 * 2 + 80 * 12 + 1_120 * 120) / 1e6,
        ),
        # $5 and $6 per thousand requests with a low search context, the default.
        ("perplexity", "sonar", _of(2_000, 300), 0.0023 + 0.005),
        ("perplexity", "sonar-pro", _of(2_000, 200), 0.006 + 0.003 + 0.006),
        ("google", "claude-sonnet-4-6", _of(1_000, web_searches=3), 0.003 + 0.03),
    ],
)
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
