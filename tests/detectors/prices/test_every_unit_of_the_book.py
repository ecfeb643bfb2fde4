"""Every unit that the price book has rates for is priced as it says, or listed with the reason."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import genai_prices
import polars as pl
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.data_units import unit_data
from genai_prices.types import ModelInfo, ModelPrice

from detectors.contract import SECONDS, UNITS
from detectors.contract.units import SHARES
from detectors.prices import units
from detectors.prices.book import PriceBook
from detectors.prices.lookup.published import priced_regions
from tests.cases import data_of, each_case
from tests.detectors.prices.labels import PLANS, is_completed, labelled
from tests.detectors.prices.pricing import price_calls

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)

# The counts of a record beside the usual four, and the book's name for each.
_COUNTS = {
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "reasoning_tokens": "output_reasoning_tokens",
    "audio_prompt_tokens": "input_audio_tokens",
    "audio_completion_tokens": "output_audio_tokens",
    "image_prompt_tokens": "input_image_tokens",
    "image_completion_tokens": "output_image_tokens",
    "web_searches": "web_searches",
}
_USUAL = {
    "prompt_tokens": "input_tokens",
    "cached_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "completion_tokens": "output_tokens",
}
_PLAIN: dict[str, float] = dict.fromkeys((*_USUAL, *_COUNTS, *UNITS), 0)
# A query over a frame without columns for the units is planned in a tenth of the time.
_FIELDS: dict[str, float] = dict.fromkeys((*_USUAL, *_COUNTS), 0)
_SHAPES: tuple[dict[str, float], ...] = (
    {"prompt_tokens": 9_001, "cached_tokens": 4_000, "completion_tokens": 700},
    {"prompt_tokens": 300_000, "cache_write_tokens": 299_000, "completion_tokens": 700},
    {"prompt_tokens": 9_001, "completion_tokens": 7_000},
)


def _uses() -> Iterator[dict[str, float]]:
    """Each unit alone, several at once, and none."""
    for shape in _SHAPES:
        yield _PLAIN | shape
        yield from (_PLAIN | shape | {name: 700} for name in _COUNTS)
        yield _PLAIN | shape | {"audio_prompt_tokens": 100, "image_prompt_tokens": 200}
        yield _PLAIN | shape | {"reasoning_tokens": 300, "web_searches": 3}
    yield _PLAIN | _SHAPES[1] | dict.fromkeys(("cache_write_1h_tokens", "web_searches"), 90_000)


# A total for each part.
_EVERY: dict[str, float] = {
    **{"prompt_tokens": 9_000, "cached_tokens": 2_000, "cache_write_tokens": 1_500},
    **{"completion_tokens": 700, "cache_write_1h_tokens": 400, "reasoning_tokens": 100},
    **{"audio_prompt_tokens": 1_000, "image_prompt_tokens": 900},
    **{"audio_completion_tokens": 90, "image_completion_tokens": 80},
}


def _unit_use(unit: str) -> dict[str, float]:
    """One unit beside all fields, and the units that it is part of."""
    wholes = [total for total, parts in SHARES if unit in parts and total in UNITS]
    amount = 12.75 if unit in SECONDS else 12
    return _EVERY | dict.fromkeys([unit, *wholes], amount)


def _unit_uses(info: ModelInfo, number: int) -> Iterator[dict[str, float]]:
    """The units that the model has rates for, several at once, and some of the others."""
    priced = _price_keys_of(info)
    for index, unit in enumerate(UNITS):
        if unit_data[unit]["price_key"] in priced or (number + index) % 12 == 0:
            yield _PLAIN | _unit_use(unit)
    if _is_special(info):
        video = {"input_video_tokens": 600, "cache_video_read_tokens": 200}
        yield _PLAIN | _EVERY | video | {"input_tool_tokens": 9, "input_video_tool_tokens": 9}
        spoken = {"audio_seconds": 61.5, "input_audio_seconds": 60.25, "web_searches": 2}
        yield _PLAIN | _EVERY | spoken


def _prices(info: ModelInfo) -> list[ModelPrice]:
    if isinstance(info.prices, ModelPrice):
        return [info.prices]
    return [conditional.prices for conditional in info.prices]


def _is_special(info: ModelInfo) -> bool:
    usual = {"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"}
    others = {"cache_write_1h_mtok", "web_searches_kcount"}
    return bool(_price_keys_of(info) - usual - others)


def _price_keys_of(info: ModelInfo) -> set[str]:
    return {key for price in _prices(info) for key, rate in vars(price).items() if rate is not None}


def _calls(*, every: int) -> list[dict[str, Any]]:
    """Calls to one in `every` models, and to all models that have unusual rates."""
    return [
        {
            "at_us": (_NOON - _EPOCH) // timedelta(microseconds=1),
            "provider": provider.id,
            "model": label,
            **counts,
        }
        for number, (provider, info, label) in enumerate(labelled())
        if provider.id not in PLANS and (number % every == 0 or _is_special(info))
        for counts in (*_uses(), *_unit_uses(info, number))
    ]


def _book_says(call: dict[str, Any]) -> float | None:
    """The book's own answer; none where it refuses the counts."""
    names = _USUAL | _COUNTS | dict(zip(UNITS, UNITS, strict=True))
    usage = genai_prices.Usage(**{key: call[name] for name, key in names.items() if call[name]})
    try:
        answer = genai_prices.calc_price(
            usage, call["model"], provider_id=call["provider"], genai_request_timestamp=_NOON
        )
    except ValueError:
        return None
    return float(answer.total_price)


def _price(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frame = pl.LazyFrame(calls)
    return price_calls(frame, PriceBook()).collect().rows(named=True)


def _compare(calls: list[dict[str, Any]]) -> set[str]:
    """Compare with the book, and return the counts that made a difference."""
    seen, refused = set(), 0
    for call in _price(calls):
        expected = _book_says(call)
        if expected is None:
            refused += 1
            continue
        is_equal = call["cost_usd"] == pytest.approx(expected, rel=1e-9, abs=1e-18)
        assert is_equal or is_completed(call), call
        seen |= {name for name in (*_COUNTS, *UNITS) if call[name]}
    assert refused < len(calls) / 10
    return seen


def test_each_unit_costs_what_the_book_says() -> None:
    assert _compare(_calls(every=100)) == {*_COUNTS, *UNITS}


@pytest.mark.stress
def test_each_unit_costs_what_the_book_says_for_every_model() -> None:
    assert _compare(_calls(every=1)) == {*_COUNTS, *UNITS}


def _unknown(price_keys: set[str]) -> set[str]:
    return price_keys - units.priced_units().keys()


def _price_keys() -> set[str]:
    """Every price key of the registry, and every key that a model has a rate for."""
    used = {
        key
        for provider in get_snapshot().providers
        for info in provider.models
        for price in (*_prices(info), *(each.prices for each in info.price_variants or ()))
        for key in vars(price)
    }
    return used | {unit["price_key"] for unit in unit_data.values()}


def test_every_price_key_is_priced_and_a_new_one_is_noticed() -> None:
    assert _unknown(_price_keys()) == set()
    # A price key that is new to the book is noticed.
    assert _unknown({"input_mtok", "input_smell_mtok"}) == {"input_smell_mtok"}


@each_case(
    ("provider", "model", "counted", "usd"),
    [
        ("openai", "whisper-1", {"audio_seconds": 90.5}, 90.5 / 60 * 0.006),
        ("openai", "whisper-1", {"code_executions": 5}, None),
        ("openai", "whisper-1", {}, None),
    ],
)
def test_a_model_that_is_billed_by_the_hour_is_priced_where_the_call_counts_seconds(
    provider: str, model: str, counted: dict[str, float], usd: float | None
) -> None:
    at = (_NOON - _EPOCH) // timedelta(microseconds=1)
    call = {"at_us": at, "provider": provider, "model": model} | _FIELDS | {"prompt_tokens": 50}
    call |= {"audio_seconds": 0, "code_executions": 0}
    # The other call is priced, whatever this one is.
    priced = _price([call | counted, call | {"model": "gpt-5.4", "audio_seconds": 0}])
    found = [each["cost_usd"] for each in priced if each["model"] == model]
    assert found == ([] if usd is None else [pytest.approx(usd, rel=1e-12)])


def test_what_another_call_counts_changes_no_price() -> None:
    """A call of cached sounds beside one that doesn't say what was cached."""
    at = (_NOON - _EPOCH) // timedelta(microseconds=1)
    call = {"at_us": at, "provider": "openai", "model": "gpt-realtime"} | _FIELDS
    call["cache_audio_read_tokens"] = 0
    unsaid = call | {"prompt_tokens": 1_000, "cached_tokens": 900, "audio_prompt_tokens": 500}
    said = unsaid | {"cache_audio_read_tokens": 450}
    alone = [row["cost_usd"] for row in _price([unsaid])]
    both = [row["cost_usd"] for row in _price([unsaid, said])]
    assert sorted(both) == sorted([*alone, *(row["cost_usd"] for row in _price([said]))])


def _cost(model: str, **more: Any) -> float:
    provider = "openai" if model.startswith("gpt") else "anthropic"
    call = {"at_us": (_NOON - _EPOCH) // timedelta(microseconds=1), "provider": provider}
    [priced] = _price([call | {"model": model} | _FIELDS | more])
    return float(priced["cost_usd"])


def test_an_hours_cache_and_web_searches_cost_what_the_book_says() -> None:
    written = {"prompt_tokens": 1_000_000, "cache_write_tokens": 1_000_000}
    call = {"cache_write_1h_tokens": 1_000_000, "web_searches": 1_000, **written}
    assert _cost("claude-sonnet-4-5", **call) == pytest.approx(22, rel=1e-12)


@each_case(("for_an_hour", "million_usd"), [(0, 2.5), (400, 3.1), (5_000, 4)])
def test_no_more_tokens_are_written_for_an_hour_than_at_all(
    for_an_hour: int, million_usd: float
) -> None:
    # claude-sonnet-5: writes at $2.50 for five minutes and at $4 for an hour.
    counts = {"prompt_tokens": 1_000, "cache_write_tokens": 1_000}
    cost = _cost("claude-sonnet-5", cache_write_1h_tokens=for_an_hour, **counts)
    assert cost == pytest.approx(million_usd / 1_000, rel=1e-12)


def test_sounds_beyond_the_prompt_are_cached_and_a_frames_own_column_is_priced() -> None:
    # gpt-realtime: text $4, sounds $32, cached $0.40 per million tokens.
    counts = {"prompt_tokens": 1_000, "cached_tokens": 900}
    cost = _cost("gpt-realtime", audio_prompt_tokens=500, **counts)
    assert cost == pytest.approx((100 * 32 + 900 * 0.4) / 1e6, rel=1e-12)
    # A frames own column prices a unit that records do not count.
    base = _cost("claude-sonnet-5", prompt_tokens=10)
    call = {"prompt_tokens": 10, "file_searches": 7, "storage_searches": 1_000}
    assert _cost("gpt-5.4", **call) - _cost("gpt-5.4", prompt_tokens=10) == pytest.approx(2.5)
    assert _cost("claude-sonnet-5", **call) == pytest.approx(base)


@each_case(("model", "region", "times"), data_of(__file__)["regions"])
def test_a_call_kept_in_a_region_costs_the_providers_surcharge(
    model: str, region: str, times: float
) -> None:
    counts = {"prompt_tokens": 9_000, "cached_tokens": 500, "completion_tokens": 400}
    fee = {"web_searches": 5}
    plain = _cost(model, **counts)
    assert _cost(model, region=region, **counts) == pytest.approx(plain * times, rel=1e-12)
    searched = _cost(model, region=region, **counts, **fee)
    assert searched == pytest.approx(plain * times + 0.05, rel=1e-12)


def test_a_surcharge_multiplies_the_rates_of_the_tier() -> None:
    counts = {"prompt_tokens": 9_000, "service_tier": "batch"}
    assert _cost("claude-opus-5-5", region="us", **counts) == pytest.approx(9_000 * 2.2e-6)
    assert "us" in priced_regions()
