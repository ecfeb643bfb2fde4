"""What the frame says a call costs is what `genai_prices.calc_price` says, over the whole book."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any

import genai_prices
import narwhals.stable.v2 as nw
import polars as pl
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, StartDateConstraint, TieredPrices

from detectors.prices.book import PriceBook
from detectors.prices.table import price_calls

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
# (prompt, read, written, completion): also with more cache than prompt, where the book may fail.
_COUNTS = [(0, 0, 0, 0), (1, 0, 0, 1), (9_001, 4_000, 3_000, 700), (5_000, 0, 5_000, 3)]
_OVERFULL = [(100, 90, 20, 5), (100, 300, 0, 5)]


def _prices(info: ModelInfo) -> list[tuple[Any, ModelPrice]]:
    if isinstance(info.prices, ModelPrice):
        return [(None, info.prices)]
    return [(conditional.constraint, conditional.prices) for conditional in info.prices]


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


def _counts(info: ModelInfo) -> Iterator[tuple[int, int, int, int]]:
    yield from _COUNTS + _OVERFULL
    for _, price in _prices(info):
        for rate in vars(price).values():
            if isinstance(rate, TieredPrices):
                for tier in rate.tiers:
                    yield from ((tier.start + more, 10, 20, 30) for more in (-1, 0, 1))


def _labelled() -> Iterator[tuple[Provider, ModelInfo, str]]:
    """Every model of the book by its own id, where the book finds some model by it."""
    for provider in get_snapshot().providers:
        for info in provider.models:
            if provider.find_model(info.id) is not None:
                yield provider, info, info.id


def _calls() -> list[dict[str, Any]]:
    return [
        {
            "at_us": (at - _EPOCH) // timedelta(microseconds=1),
            "provider": provider.id,
            "model": label,
            "prompt_tokens": counts[0],
            "cached_tokens": counts[1],
            "cache_write_tokens": counts[2],
            "completion_tokens": counts[3],
        }
        for provider, info, label in _labelled()
        # A flat-rate label is priced by the vendor's list, not by the book's entry for the plan.
        if provider.id != "cursor"
        for at in dict.fromkeys(_moments(info))
        for counts in dict.fromkeys(_counts(info))
    ]


def _book_says(call: dict[str, Any]) -> float | None:
    """The book's own answer; none where it cannot give one."""
    usage = genai_prices.Usage(
        input_tokens=call["prompt_tokens"],
        cache_read_tokens=call["cached_tokens"],
        cache_write_tokens=call["cache_write_tokens"],
        output_tokens=call["completion_tokens"],
    )
    at = _EPOCH + timedelta(microseconds=call["at_us"])
    try:
        answer = genai_prices.calc_price(
            usage, call["model"], provider_id=call["provider"], genai_request_timestamp=at
        )
    except ValueError:
        return None
    return float(answer.total_price)


@pytest.fixture(scope="module")
def priced() -> list[dict[str, Any]]:
    frame = nw.from_native(pl.LazyFrame(_calls()))
    return price_calls(frame, PriceBook()).collect("polars").rows(named=True)


def test_it_agrees_with_the_book_wherever_the_book_answers(priced: list[dict[str, Any]]) -> None:
    compared, refused = 0, 0
    for call in priced:
        expected = _book_says(call)
        if expected is None:
            refused += 1
            assert call["cached_tokens"] + call["cache_write_tokens"] > call["prompt_tokens"]
        else:
            compared += 1
            assert call["cost_usd"] == pytest.approx(expected, rel=1e-9, abs=1e-18), call
    assert compared > 10_000
    assert refused > 1_000


def test_it_leaves_unpriced_only_what_has_no_rate_for_input_tokens(
    priced: list[dict[str, Any]],
) -> None:
    known = {(call["provider"], call["model"]) for call in priced}
    unpriced = {(call["provider"], call["model"]) for call in _calls()} - known
    assert unpriced
    for provider_id, model in unpriced:
        _, info = get_snapshot().find_provider_model(model, None, provider_id, None)
        assert all(price.input_mtok is None for _, price in _prices(info))
