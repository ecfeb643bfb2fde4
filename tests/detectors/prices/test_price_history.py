"""The days on which list prices changed, by the installed price book."""

from datetime import date, timedelta

from detectors.prices.book import PriceBook
from detectors.prices.history import list_changes
from tests.cases import data_of, each_case

SOL = ("openai", "gpt-5.6-sol")
SOL_CHANGED = date(2026, 8, 21)


def _changes(book: PriceBook, provider: str, model: str) -> dict[date, str]:
    listing = book.find_listing(provider, model)
    assert listing is not None
    return dict(list_changes(listing))


@each_case(("provider", "model", "changes"), data_of(__file__)["changes"])
def test_each_change_has_its_day_and_the_rates_before_and_after(
    provider: str, model: str, changes: dict[str, str]
) -> None:
    found = _changes(PriceBook(), provider, model)
    assert {day.isoformat(): words for day, words in found.items()} == changes


def test_what_own_rates_replace_is_no_change() -> None:
    whole = PriceBook(overrides={SOL: {"input_mtok": 4, "output_mtok": 24}})
    assert _changes(whole, *SOL) == {}
    part = PriceBook(overrides={SOL: {"output_mtok": 24}})
    assert _changes(part, *SOL) == {SOL_CHANGED: "input $5.00 → $4.00 per 1M"}
    begun = {"from": SOL_CHANGED, "input_mtok": 3, "output_mtok": 20}
    assert _changes(PriceBook(overrides={SOL: [begun]}), *SOL) == {}
    # A discount that made up for the change until then.
    ended = PriceBook(discounts={"openai": [{"until": SOL_CHANGED - timedelta(1), "share": 0.2}]})
    assert _changes(ended, *SOL) == _changes(PriceBook(), *SOL)
    discounted = PriceBook(discounts={"openai": 0.1})
    assert _changes(discounted, *SOL) == _changes(PriceBook(), *SOL)
