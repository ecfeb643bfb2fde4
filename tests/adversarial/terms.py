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


def _filled(start: str, unit: str, end: str = "") -> Attack:
    return lambda size: start.encode() + repeated(unit.encode(), size) + end.encode()


def _counted(start: str, unit: str, end: str = "") -> Attack:
    return lambda size: start.encode() + numbered(unit.encode(), size) + end.encode()


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
    "a dotted key": _filled("", "a.", "b = 1"),
    "a dotted key with spaces": _filled("", "a . ", "b = 1"),
    "a dotted key of quotes": _filled("", '"a".', "b = 1"),
    "short dotted keys": _counted("", "overrides.a.m%d.input_mtok.x = 1\n"),
    "a dotted header": _filled("[", "a.", "b]"),
    "headers": _counted("", "[overrides.a.m%d]\n"),
    "equal headers of arrays": _filled("", "[[overrides.a.b]]\n"),
    "headers that nest": _counted("", "[[overrides.a.m%d]]\n[overrides.a.x.y]\n"),
    "open arrays": _filled("x = ", "["),
    "open tables": _filled("x = ", "{ a = "),
    "arrays of arrays": _filled("x = [", "[[[[]]]],", "]"),
    "an array of numbers": _filled("[discounts]\nopenai = [", "0.1,", "]"),
    "an array of errors": _filled("[discounts]\nopenai = [", "9,", "]"),
    "an array of empty tables": _filled("[discounts]\nopenai = [", "{},", "]"),
    "digits": _filled("[discounts]\nopenai = ", "9"),
    "digits in quotes": _filled('[discounts]\nopenai = "0.', "9", '"'),
    "numbers of many digits": _counted("[discounts]\n", f"p%d = 0.{'9' * 190}\n"),
    "zeros of an exponent": _filled("[discounts]\nopenai = 1e-", "0", "1"),
    "exponents": _counted("[discounts]\n", 'p%d = "1e-300000000"\n'),
    "exponents of rates": _counted("", '[overrides.a.m%d]\ninput_mtok = "1e999999"\n'),
    "underscores": _filled("[discounts]\nopenai = 1", "_1"),
    "comments": _filled("", "# a\n"),
    "a comment": _filled("#", "a"),
    "spaces": _filled("a", " ", "= 1"),
    "line breaks": _filled("", "\r\n"),
    "quotes": _filled("", '"'),
    "open quotes": _filled("", '"\n'),
    "escapes": _filled('"', "\\u0041", '" = 1'),
    "backslashes": _filled('"', "\\", '" = 1'),
    "emoji": _filled('"', "\N{PILE OF POO}", '" = 1'),
    "long names": _counted("[aliases.azure]\n", f'"{"n" * 150}%d" = ["azure", "gpt-4o"]\n'),
    "keys": _counted("[discounts]\n", "p%d = 0.1\n"),
    "unknown keys": _counted("", "k%d = 1\n"),
    "dates of one provider": _dated(
        "[discounts]\nopenai = [",
        lambda day: f"{{ share = 0.1, from = {day}, until = {day} }}, ",
        "]",
    ),
    "dates of one model": _dated(
        "", lambda day: f'[[overrides.openai."gpt-4o"]]\nfrom = {day}\nuntil = {day}\n{_RATES}'
    ),
    "overlaps": _filled("[discounts]\nopenai = [", "{ share = 0.1, from = 2026-01-01 }, ", "]"),
    "own models": _counted("", f"[overrides.own.m%d]\n{_RATES}"),
    "names of one model": _counted("", f'[overrides.azure."gpt-4o-2024-08-06-m%d"]\n{_RATES}'),
    "slashes": _counted("", f'[overrides.x."{"a/" * 8}m%d"]\n{_RATES}'),
    "aliases": _counted("[aliases.azure]\n", 'prod-%d-deployment = ["azure", "gpt-4o"]\n'),
    "wildcards": _counted("[aliases.azure]\n", '"prod-%d-*" = ["azure", "gpt-4o"]\n'),
    "wildcards on both sides": _counted("[aliases.azure]\n", '"*%d*t" = ["azure", "gpt-4o"]\n'),
    "many wildcards in each": _counted(
        "[aliases.azure]\n", f'"{"*e" * 40}*%d" = ["azure", "gpt-4o"]\n'
    ),
    "sets": _counted("[aliases.azure]\n", f'"{"[a-z]" * 20}*%d" = ["azure", "gpt-4o"]\n'),
    "open sets": _counted("[aliases.azure]\n", f'"{"[" * 100}*%d" = ["azure", "gpt-4o"]\n'),
    "providers with wildcards": _counted("", '[aliases."*%d*"]\n"*" = ["azure", "gpt-4o"]\n'),
    "aliases of unknown models": _counted("[aliases.azure]\n", 'm%d = ["azure", "gpt-none"]\n'),
    "aliases of each other": _counted("[aliases.azure]\n", 'm%d = ["azure", "m0"]\n'),
}
