"""Adversarial price files: functions of a size, each one kind of attack, and what they cost.

Reading, checking, writing and applying must take time in proportion to their bytes.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from itertools import count
from typing import Final

from detectors.errors import PriceTermsError
from detectors.prices.agreed.bounds import decode
from detectors.prices.book import PriceBook
from tests.adversarial.files import Attack, numbered, repeated
from tests.cases import data_of

_BOOK: Final = PriceBook()
_MODELS: Final = 500


def read_terms(content: bytes) -> None:
    """Save a file as the page does, read what is stored, and look up models with it."""
    with suppress(PriceTermsError, UnicodeDecodeError):
        _BOOK.with_toml(_BOOK.with_toml(decode(content)).to_toml())
    with suppress(PriceTermsError, UnicodeDecodeError):
        book = _BOOK.with_stored_toml(decode(content))
        for number in range(_MODELS):
            book.find_listing("azure", f"prod-{number}-deployment")


def _repeated(start: str, unit: str, end: str = "") -> Attack:
    repeat = numbered if "%d" in unit else repeated
    return lambda size: start.encode() + repeat(unit.encode(), size) + end.encode()


def _dated(start: str, unit: Callable[[date], str], end: str = "") -> Attack:
    """Return terms of one provider or model on a day each."""

    def make(size: int) -> bytes:
        text = [start]
        length = len(start)
        for number in count():
            text.append(unit(date(2000, 1, 1) + timedelta(days=number % 36_000)))
            length += len(text[-1])
            if length >= size:
                return ("".join(text) + end).encode()
        raise AssertionError

    return make


_RATES: Final = "input_mtok = 1\noutput_mtok = 2\n"

TERMS: Final[dict[str, Attack]] = {
    **{name: _repeated(*parts) for name, parts in data_of(__file__).items()},
    "dates of one provider": _dated(
        "[discounts]\nopenai = [",
        lambda day: f"{{ share = 0.1, from = {day}, until = {day} }}, ",
        "]",
    ),
    "dates of one model": _dated(
        "", lambda day: f'[[overrides.openai."gpt-4o"]]\nfrom = {day}\nuntil = {day}\n{_RATES}'
    ),
}
