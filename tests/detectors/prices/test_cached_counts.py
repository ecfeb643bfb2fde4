"""Reads and writes beyond the prompt cost the same by every way to a price, for any model."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import polars as pl
import pytest

import detectors
from detectors.contract import UsageRecord
from detectors.prices.book import PriceBook
from tests.cases import each_case
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS, as_polars
from tests.detectors.prices.labels import labelled
from tests.detectors.prices.pricing import price_calls

_NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
_AT_US = (_NOON - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
# On either side of the prompt, and of the lengths at which prices change.
_COUNTS = (0, 1, 5_000, 10_000, 10_001, 300_000)
_WITHOUT_WRITES = (("openai", "gpt-5.4"), ("google", "gemini-2.5-pro"))


def _expected(provider: str, model: str, prompt: int, read: int, written: int) -> float | None:
    """Work out the cost of a prompt by the definition, from the rates of a single call."""
    listing = PriceBook().find_listing(provider, model)
    assert listing is not None
    rates = listing.find_rates(_NOON, max(prompt, read + written))
    if rates is None:
        return None
    return (
        max(prompt - read - written, 0) * rates.input_usd
        + read * rates.cache_read_usd
        + written * rates.cache_write_usd
        + rates.request_usd
    )


def _calls(every: int) -> Iterator[dict[str, Any]]:
    names = [(provider.id, label) for provider, _, label in labelled()][::every]
    for (provider, model), (prompt, read, written) in product(
        (*_WITHOUT_WRITES, *names), product(_COUNTS, repeat=3)
    ):
        yield {
            "at_us": _AT_US,
            "provider": provider,
            "model": model,
            "prompt_tokens": prompt,
            "completion_tokens": 0,
            "cached_tokens": read,
            "cache_write_tokens": written,
        }


@pytest.mark.parametrize("every", [100, pytest.param(1, marks=pytest.mark.stress)])
def test_any_cached_counts_cost_what_the_definition_says(every: int) -> None:
    frame = pl.LazyFrame(list(_calls(every)))
    priced = price_calls(frame, PriceBook()).collect().rows(named=True)
    assert len(priced) > 10 * len(_COUNTS) ** 3
    names = ("provider", "model", "prompt_tokens", "cached_tokens", "cache_write_tokens")
    for call in priced:
        expected = _expected(*(call[name] for name in names))
        assert call["cost_usd"] == pytest.approx(expected, rel=1e-9, abs=1e-18), call


@each_case("library", LOCAL_INPUTS)
def test_writes_beyond_the_prompt_cost_the_input_rate_without_one_of_their_own(
    library: str,
) -> None:
    # Reads at $0.25 and $0.125, input at $2.50 and $1.25 per million tokens.
    records = [
        UsageRecord(
            ts=_NOON,
            provider=provider,
            model=model,
            prompt_tokens=10_000,
            completion_tokens=0,
            cached_tokens=5_000,
            cache_write_tokens=10_000,
        )
        for provider, model in _WITHOUT_WRITES
    ]
    report = detectors.audit(INPUTS[library](as_polars(records)))
    assert [float(each.spend_usd) for each in report.spend_by_model] == [0.02625, 0.013125]
