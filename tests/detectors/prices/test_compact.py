"""The prices that the upload page estimates with are those of the installed price book."""

import json
from importlib import metadata
from pathlib import Path

from detectors.prices.lookup.compact import compact_prices

FILE = Path(__file__).parents[3] / "service" / "web" / "static" / "upload" / "prices.json"


def test_the_page_has_the_prices_of_the_book() -> None:
    """If this fails after an upgrade of genai-prices: make compact-prices."""
    prices = compact_prices()
    assert json.loads(FILE.read_text()) == prices
    assert prices["models"]["openai"]["gpt-4o-mini"] == [0.15, 0.6, 0.075, None, 0.0]
    long = prices["models"]["google"]["gemini-2-5-pro"]
    assert (long[0], long[5], long[6]) == (1.25, 200_000, 2.5)


def test_their_license_is_beside_them() -> None:
    license_text = metadata.distribution("genai-prices").read_text("licenses/LICENSE")
    assert FILE.with_name("genai-prices-LICENSE").read_text() == license_text
