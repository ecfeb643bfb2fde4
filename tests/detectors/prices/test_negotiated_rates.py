"""Rates that were agreed on with a provider, instead of the list prices."""

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from genai_prices.data_snapshot import get_snapshot

from detectors.errors import DetectorError, PriceTermsError
from detectors.prices.book import PriceBook
from tests.cases import data_of, each_case
from tests.detectors.prices.pricing import price_calls

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATES = {"from": "2026-11-02", "until": "2026-11-02"}
DISCOUNT = {"share": 0.2, "from": "2026-11-01", "until": "2026-11-03"}


def _calls(*calls: dict[str, Any]) -> pl.LazyFrame:
    defaults = {
        "at_us": (NOON - EPOCH) // timedelta(microseconds=1),
        "provider": "openai",
        "model": "gpt-5.4",  # $2.50 in, $0.25 cached, $15.00 out per million tokens
        "service_tier": "",
        "prompt_tokens": 1_000_000 // 4,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "completion_tokens": 100_000,
    }
    return pl.LazyFrame([defaults | call | {"place": n} for n, call in enumerate(calls)])


def _costs(book: PriceBook, *calls: dict[str, Any]) -> list[float]:
    """What each of the calls costs."""
    priced = price_calls(_calls(*calls), book).collect()
    costs: list[float] = priced.sort("place")["cost_usd"].to_list()
    return costs


def _at(moment: datetime) -> dict[str, Any]:
    return {"at_us": (moment - EPOCH) // timedelta(microseconds=1)}


def test_a_discount_is_off_every_rate_of_its_provider() -> None:
    book = PriceBook(discounts={"openai": 0.12})
    [own, cached, other] = _costs(
        book, {}, {"cached_tokens": 200_000}, {"provider": "anthropic", "model": "claude-opus-4-8"}
    )
    assert own == pytest.approx((0.25 * 2.5 + 0.1 * 15) * 0.88, rel=1e-12)
    assert cached == pytest.approx((0.05 * 2.5 + 0.2 * 0.25 + 0.1 * 15) * 0.88, rel=1e-12)
    assert other == pytest.approx(0.25 * 5 + 0.1 * 25, rel=1e-12)


@each_case("share", [0.12, "0.12", Decimal("0.12"), {"share": 0.12}, [{"share": 0.12}]])
def test_a_share_may_be_written_in_several_ways(share: object) -> None:
    assert PriceBook(discounts={"openai": share}).negotiated == ("openai: 12% off",)


def test_discounts_and_overrides_apply_on_their_days() -> None:
    tick = timedelta(microseconds=1)
    first, after = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC)
    book = PriceBook(discounts={"openai": DISCOUNT})
    costs = _costs(book, *map(_at, (first - tick, first, after - tick, after)))
    assert costs == pytest.approx([2.125, 1.7, 1.7, 2.125], rel=1e-12)
    # One discount may follow another.
    book = PriceBook(discounts={"openai": [DISCOUNT, {"share": 0.4, "from": date(2026, 11, 4)}]})
    costs = _costs(book, *(_at(NOON + timedelta(days=days)) for days in (-3, 0, 2)))
    assert costs == pytest.approx([2.125, 1.7, 1.275], rel=1e-12)
    # An override replaces the list and the discount.
    book = PriceBook(
        discounts={"openai": 0.1}, overrides={("openai", "gpt-5.4"): {"input_mtok": 2}}
    )
    # The input as agreed, the output at the discount.
    assert _costs(book, {}) == pytest.approx([0.25 * 2 + 0.1 * 15 * 0.9], rel=1e-12)


def test_cache_rates_move_with_an_overridden_input_rate() -> None:
    # The list has $2.50 for input and $0.25 for cache reads; $2 for input is four fifths of that.
    partial = {"input_mtok": 2, "output_mtok": 15}
    book = PriceBook(overrides={("openai", "gpt-5.4"): partial}, discounts={"openai": 0.5})
    cost = _costs(book, {"cached_tokens": 200_000})
    assert cost == pytest.approx([0.05 * 2 + 0.2 * 0.2 + 0.1 * 15], rel=1e-12)
    assert book.negotiated[-1].endswith("; cache rates scaled in proportion to input")

    whole = PriceBook(overrides={("openai", "gpt-5.4"): partial | {"cache_read_mtok": 0.25}})
    assert _costs(whole, {"cached_tokens": 200_000}) == pytest.approx([1.65], rel=1e-12)
    assert "proportion" not in whole.negotiated[0]


def test_an_override_applies_to_every_name_tier_and_length() -> None:
    book = PriceBook(overrides={("openai", "gpt-4-turbo"): {"input_mtok": 8}})
    assert book.negotiated == ("openai gpt-4-turbo: input_mtok $8.00",)
    # An override applies to every name of its model and no other.
    book = PriceBook(overrides={("openai", "gpt-5.4"): {"input_mtok": 2, "output_mtok": 10}})
    snapshot, smaller = _costs(book, {"model": "gpt-5.4-2026-03-05"}, {"model": "gpt-5.4-mini"})
    assert snapshot == pytest.approx(1.5, rel=1e-12)
    assert smaller == pytest.approx(0.25 * 0.75 + 0.1 * 4.5, rel=1e-12)
    # An override moves with the list for long prompts and other tiers.
    # The list doubles the input beyond 272,000 tokens, and halves all of it for a batch.
    book = PriceBook(overrides={("openai", "gpt-5.4"): {"input_mtok": 2}})
    long, batch = _costs(
        book, {"prompt_tokens": 300_000, "completion_tokens": 0}, {"service_tier": "batch"}
    )
    assert long == pytest.approx(0.3 * 4, rel=1e-12)
    assert batch == pytest.approx(0.25 * 1 + 0.1 * 7.5, rel=1e-12)


def test_cached_tokens_and_targets_cost_what_was_negotiated() -> None:
    # gpt-4-turbo: $10 and $30 per million tokens, no cache rates.
    book = PriceBook(overrides={("openai", "gpt-4-turbo"): {"cache_read_mtok": 1}})
    cost = _costs(book, {"model": "gpt-4-turbo", "cached_tokens": 200_000})
    assert cost == pytest.approx([0.05 * 10 + 0.2 * 1 + 0.1 * 30], rel=1e-12)
    # A cached token without a rate costs the negotiated input rate.
    book = PriceBook(overrides={("openai", "gpt-4-turbo"): {"input_mtok": 8}})
    cost = _costs(book, {"model": "gpt-4-turbo", "cached_tokens": 200_000})
    assert cost == pytest.approx([0.25 * 8 + 0.1 * 30], rel=1e-12)
    # The target is compared at its negotiated rates.
    agreed = {("openai", "gpt-5.4-mini"): {"input_mtok": 0.5, "output_mtok": 3}}
    calls = price_calls(_calls({}), PriceBook(overrides=agreed))
    [saving] = calls.collect()["target_saving_usd"]
    assert saving == pytest.approx(0.25 * 2 + 0.1 * 12, rel=1e-12)


def test_a_private_model_is_priced_while_its_rates_apply() -> None:
    own = {("basement", "llama-on-a-shelf"): {"input_mtok": 1, "output_mtok": 2, **DATES}}
    call = {"provider": "basement", "model": "Llama-on-a-shelf"}
    book = PriceBook(overrides=own)
    assert _costs(book, call) == pytest.approx([0.45], rel=1e-12)
    assert _costs(book, call | _at(NOON + timedelta(days=2))) == []
    assert _costs(PriceBook(), call) == []
    listing = book.find_listing("basement", "llama-on-a-shelf")
    assert listing is not None
    assert not listing.is_equivalent


def test_two_models_and_two_spans_of_one_may_have_rates() -> None:
    whole = {"input_mtok": 1, "output_mtok": 2}
    book = PriceBook(
        overrides={
            ("basement", "shelf"): [whole | DATES, whole | {"input_mtok": 3, "from": "2026-11-03"}],
            ("basement", "cupboard"): whole,
        }
    )
    shelf = {"provider": "basement", "model": "shelf"}
    later = _at(NOON + timedelta(days=30))
    costs = _costs(book, shelf, shelf | later, shelf | {"model": "cupboard"} | later)
    assert costs == pytest.approx([0.45, 0.95, 0.45], rel=1e-12)


def test_a_gateways_label_has_its_own_rates_and_the_providers_discount() -> None:
    book = PriceBook(overrides={("house", "gpt-5.4"): {"input_mtok": 1, "output_mtok": 5}})
    costs = _costs(book, {"provider": "house"}, {"provider": "openai"})
    assert costs == pytest.approx([0.75, 2.125], rel=1e-12)
    # The providers discount applies through a gateway.
    book = PriceBook(discounts={"openai": 0.2})
    assert _costs(book, {"provider": "house"}) == pytest.approx([1.7], rel=1e-12)


def test_negotiated_rates_are_described_in_words() -> None:
    book = PriceBook(
        discounts={"openai": 0.125, "anthropic": DISCOUNT},
        overrides={("openai", "gpt-5.5"): {"input_mtok": "4.50", "from": "2026-01-01"}},
    )
    assert book.negotiated == (
        "openai: 12.5% off",
        "anthropic: 20% off from 2026-11-01 until 2026-11-03",
        "openai gpt-5.5: input_mtok $4.50 from 2026-01-01; "
        "cache rates scaled in proportion to input",
    )
    assert PriceBook().negotiated == ()


WRONG: list[tuple[dict[str, Any], str]] = [
    *(({"discounts": terms}, message) for terms, message in data_of(__file__)["discounts"]),
    ({"overrides": {"gpt-5.4": {"input_mtok": 1}}}, r"expected a \(provider, model\) as key"),
    ({"overrides": {("openai", 5): {"input_mtok": 1}}}, "expected provider and model as text"),
    ({"overrides": {("openai", "gpt-5.4"): 1}}, "expected a mapping of input_mtok"),
    ({"overrides": {("openai", "gpt-5.4"): {}}}, "expected at least one of input_mtok"),
    ({"overrides": {("openai", "gpt-5.4"): {"input": 1}}}, "unknown 'input'"),
    ({"overrides": {("openai", "gpt-5.4"): {"input_mtok": -1}}}, "input_mtok: expected US dollars"),
    (
        {"overrides": {("openai", "gpt-5.4"): {"input_mtok": None}}},
        "input_mtok: expected US dollars",
    ),
    ({"overrides": {("openai", "gpt-5.44"): {"input_mtok": 1}}}, "is not in the price book"),
]


@each_case(("terms", "message"), WRONG)
def test_invalid_terms_are_rejected(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(PriceTermsError, match=message) as caught:
        PriceBook(**terms)
    assert isinstance(caught.value, DetectorError)
    assert isinstance(caught.value, ValueError)


def test_a_copied_price_book_has_its_negotiated_rates() -> None:
    """A model is the same object under all its names, in a book from another process, too."""
    book = PriceBook(overrides={("openai", "gpt-4o"): {"input_mtok": 1, "output_mtok": 2}})
    listing = pickle.loads(pickle.dumps(book)).find_listing("OpenAI", "gpt-4o-2024-08-06")
    rates = listing.find_rates(datetime(2026, 5, 1, tzinfo=UTC), 0)
    assert rates.input_usd == 1e-6


def test_a_price_book_forgets_the_names_that_it_was_asked_for() -> None:
    """The names of calls are their callers'; the prices outlive each account's audit."""
    before = len(get_snapshot()._provider_misses)
    book = PriceBook()
    for number in range(50):
        assert book.find_listing(f"nobody-{number}", f"nothing-{number}") is None
    assert len(get_snapshot()._provider_misses) == before
