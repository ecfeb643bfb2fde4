"""Which listing a pair of labels means, and what the data files say about models."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import polars as pl
import pytest
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider, Tier, TieredPrices

from detectors.prices import model_data
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from tests.cases import each_case
from tests.detectors.prices.pricing import price_calls

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = datetime(2026, 11, 2, tzinfo=UTC)


def _listing(provider: str, model: str) -> Listing:
    listing = PriceBook().find_listing(provider, model)
    assert listing is not None
    return listing


def _price(book: PriceBook | None = None, **call: Any) -> dict[str, Any] | None:
    """The call with its price, if it has one."""
    defaults = {
        "at_us": (_DAY - _EPOCH) // timedelta(microseconds=1),
        "provider": "openai",
        "prompt_tokens": 1_000,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "completion_tokens": 100,
    }
    calls = pl.LazyFrame([defaults | call])
    rows = price_calls(calls, book or PriceBook()).collect().rows(named=True)
    return rows[0] if rows else None


def _priced(book: PriceBook | None = None, **call: Any) -> dict[str, Any]:
    priced = _price(book, **call)
    assert priced is not None
    return priced


def test_a_label_of_the_book_and_a_providers_alias_are_billed_spend() -> None:
    listing = _listing("openai", "GPT-5.4")
    assert (listing.provider, listing.is_equivalent) == ("openai", False)
    # An alias of a provider is that provider.
    assert _listing("amazon-bedrock", "us.amazon.nova-pro-v1:0").provider == "aws"


@each_case("label", ["my-gateway", "claude-code", "claude-max", "cursor", "copilot"])
def test_an_unknown_label_or_a_plan_has_the_providers_list_price(label: str) -> None:
    listing = _listing(label, "claude-opus-4-8")
    assert (listing.provider, listing.is_equivalent) == ("anthropic", True)


def test_a_plan_and_a_gateway_have_the_prices_of_the_models_provider() -> None:
    listing = _listing("copilot", "mai-code-1-flash-picker")
    assert (listing.provider, listing.is_equivalent) == ("github-copilot", True)
    # A gateways provider comes from the models name.
    listing = _listing("litellm", "anthropic/claude-opus-4-8")
    assert (listing.provider, listing.is_equivalent) == ("anthropic", True)


@each_case(
    ("provider", "model"),
    [("openai", "no-such-model"), ("my-gateway", "no-such-model"), ("groq", "no-such-model")],
)
def test_an_unknown_model_is_never_guessed(provider: str, model: str) -> None:
    assert PriceBook().find_listing(provider, model) is None
    assert _price(provider=provider, model=model) is None


@each_case("model", ["whisper-1", "tts-1"])
def test_a_model_billed_by_hours_or_characters_is_unpriced(model: str) -> None:
    assert _price(model=model) is None


def test_fees_and_cached_tokens_cost_what_the_book_says() -> None:
    # sonar-pro: $3 and $15 per million tokens, $6 per thousand requests.
    call = _priced(provider="perplexity", model="sonar-pro")
    expected = Decimal(1_000) * 3 / 10**6 + Decimal(100) * 15 / 10**6 + Decimal(6) / 1_000
    assert call["cost_usd"] == pytest.approx(float(expected), rel=1e-12)
    assert call["input_usd_per_token"] == pytest.approx(3e-6, rel=1e-12)
    # A cached token without a rate costs the input rate.
    # gpt-4-turbo: $10 and $30 per million tokens, no cache rates.
    call = _priced(model="gpt-4-turbo", cached_tokens=400, cache_write_tokens=300)
    assert call["cost_usd"] == pytest.approx(0.013, rel=1e-12)
    assert call["has_cache_read"] == 0
    assert call["cache_read_usd"] == call["input_usd"]
    # More cache than prompt leaves nothing uncached.
    # claude-opus-4-8: read $0.50, write $6.25, output $25 per million tokens.
    call = _priced(
        provider="anthropic", model="claude-opus-4-8", cached_tokens=900, cache_write_tokens=200
    )
    expected = Decimal(900) / 2 / 10**6 + Decimal(200) * 25 / 4 / 10**6 + Decimal(2_500) / 10**6
    assert call["cost_usd"] == pytest.approx(float(expected), rel=1e-12)


def test_a_target_counts_where_it_is_cheaper_for_the_call() -> None:
    # Until 2026-07-29 gpt-5.6-luna cost $1 and $6, gpt-5.6-terra $2.50 and $15 per million tokens.
    call = _priced(model="gpt-5.6-terra", at_us=1_780_000_000_000_000)
    assert call["target_saving_usd"] == pytest.approx(1e-6 * (1_000 * 1.5 + 100 * 9), rel=1e-9)
    dear = _two_models(cheaper_output=Decimal(200))
    assert _priced(dear, model="gpt-5.4")["target_saving_usd"] == 0
    cheap = _two_models(cheaper_output=Decimal(60))
    saving = _priced(cheap, model="gpt-5.4")["target_saving_usd"]
    assert saving == pytest.approx(1e-6 * (1_000 * 9 - 100 * 30), rel=1e-9)
    # A target without a price does not count.
    call = _priced(_two_models(cheaper_output=None), model="gpt-5.4")
    assert (call["target_kind"], call["target_saving_usd"]) == (0, 0)
    # The target is priced at the calls length.
    tiered = TieredPrices(base=Decimal(1), tiers=[Tier(start=500, price=Decimal(9))])
    book = _two_models(cheaper_output=Decimal(5), cheaper_input=tiered)
    call = _priced(book, model="gpt-5.4")
    assert call["target_saving_usd"] == pytest.approx(1e-6 * (1_000 * (10 - 9) + 100 * 25))


def _two_models(
    *, cheaper_output: Decimal | None, cheaper_input: Decimal | TieredPrices = Decimal(1)
) -> PriceBook:
    """A book of its own: gpt-5.4 at $10 and $30, and its cheaper model in the ladder."""
    cheaper = (
        ModelPrice()
        if cheaper_output is None
        else ModelPrice(input_mtok=cheaper_input, output_mtok=cheaper_output)
    )
    models = [
        ModelInfo(
            id="gpt-5.4",
            match=ClauseEquals("gpt-5.4"),
            context_window=400_000,
            prices=ModelPrice(input_mtok=Decimal(10), output_mtok=Decimal(30)),
        ),
        ModelInfo(id="gpt-5.4-mini", match=ClauseEquals("gpt-5.4-mini"), prices=cheaper),
    ]
    provider = Provider(id="openai", name="OpenAI", api_pattern="openai", models=models)
    return PriceBook(DataSnapshot(providers=[provider], from_auto_update=False), version="test")


@each_case(
    ("model", "cheaper"),
    [
        ("gpt-5.4", "gpt-5.4-mini"),
        ("gpt-5.4-2026-03-05", "gpt-5.4-mini"),
        ("gpt-5.4-nano", None),
        ("gpt-5.4-nano-2026-03-17", None),
        ("gpt-5.4-image-2", None),
        ("gpt-5.4x", None),
    ],
)
def test_only_a_dated_snapshot_counts_as_its_model(model: str, cheaper: str | None) -> None:
    assert model_data.find_cheaper_model("openai", model) == cheaper


@each_case(
    ("provider", "model", "cheaper"),
    [
        ("anthropic", "claude-opus-4-20250514", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4.8", "claude-sonnet-5"),
        ("google", "claude-opus-4-5@20251101", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-pro", "gemini-2.5-flash"),
        ("openrouter", "anthropic/claude-opus-4.8", "claude-sonnet-5"),
    ],
)
def test_the_ladder_has_the_providers_spellings(
    provider: str, model: str, cheaper: str | None
) -> None:
    assert model_data.find_cheaper_model(provider, model) == cheaper


def test_every_rung_of_the_ladder_is_a_model_of_the_book_and_cheaper() -> None:
    book = PriceBook()
    for (provider, model), cheaper in model_data._by_provider("ladder", "cheaper").items():
        if provider not in ("openai", "anthropic", "google"):
            continue
        listing = book.find_listing(provider, model) or _listing(provider, _dotted(model))
        below = book.find_listing(provider, cheaper)
        assert below is not None, (provider, model, cheaper)
        own, other = listing.find_rates(_DAY, 0), below.find_rates(_DAY, 0)
        assert own is not None
        assert other is not None
        assert other.input_usd < own.input_usd, (provider, model, cheaper)
        assert other.output_usd < own.output_usd, (provider, model, cheaper)


def _dotted(name: str) -> str:
    """gpt-5-4 as gpt-5.4."""
    head, _, tail = name.partition("-")
    return head + "-" + tail.replace("-", ".", 1)


@each_case(
    ("model", "minimum", "needs_opt_in"),
    [
        ("claude-opus-5-20260701", 512, True),
        ("claude-opus-4-8", 1_024, True),
        ("claude-3-5-haiku-20241022", 2_048, True),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 4_096, True),
        ("gemini-3.8-flash", 4_096, False),
        ("gpt-5.4", 1_024, False),
    ],
)
def test_cache_minimums_are_those_of_the_model_providers(
    model: str, minimum: int, *, needs_opt_in: bool
) -> None:
    assert model_data.cache_minimum(model) == minimum
    assert model_data.needs_cache_opt_in(model) is needs_opt_in


def test_the_version_is_the_installed_one() -> None:
    assert PriceBook.source == "genai-prices"
    assert PriceBook().version == version("genai-prices")
