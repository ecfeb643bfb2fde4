"""The days on which list prices changed, by the installed price book."""

from datetime import date, timedelta

from detectors.prices.book import PriceBook
from detectors.prices.history import list_changes
from tests.cases import each_case

SOL = ("openai", "gpt-5.6-sol")
SOL_CHANGED = date(2026, 8, 21)
CLOCK = " (at 00:00 UTC; other hours may differ)"


def _changes(book: PriceBook, provider: str, model: str) -> dict[date, str]:
    listing = book.find_listing(provider, model)
    assert listing is not None
    return dict(list_changes(listing))


@each_case(
    ("provider", "model", "changes"),
    [
        ("openai", "gpt-5.5", {}),
        (*SOL, {SOL_CHANGED: "input $5.00 → $4.00, output $30.00 → $20.00 per 1M"}),
        # Azure resells it at the same prices.
        (
            *("azure", "gpt-5.6-sol"),
            {SOL_CHANGED: "input $5.00 → $4.00, output $30.00 → $20.00 per 1M"},
        ),
        (
            *("anthropic", "claude-opus-4-6"),
            {
                date(2026, 3, 13): "prompts over 200,000 tokens, "
                "input $10.00 → $5.00, output $37.50 → $25.00 per 1M"
            },
        ),
        (
            *("mistral", "mistral-ocr-latest"),
            {
                date(2025, 12, 18): "input document pages $1.00 → $2.00 per 1K",
                date(2026, 6, 23): "input annotated document pages $3.00 → $5.00 per 1K",
            },
        ),
        # It is cheaper at night.
        (
            *("deepseek", "deepseek-v4-flash"),
            {
                date(2026, 8, 17): f"input $0.14 → $0.22, output $0.28 → $0.66 per 1M{CLOCK}",
                date(2026, 9, 10): f"input $0.22 → $0.15, output $0.66 → $0.60 per 1M{CLOCK}",
            },
        ),
    ],
)
def test_each_change_has_its_day_and_the_rates_before_and_after(
    provider: str, model: str, changes: dict[date, str]
) -> None:
    assert _changes(PriceBook(), provider, model) == changes


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
