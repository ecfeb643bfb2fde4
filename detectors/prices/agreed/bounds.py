"""What a price file may have at most, so that reading, applying and printing it stays cheap.

The numbers of terms and dates limit what is accepted, not what an earlier release has stored.

The text is checked before it is parsed: a TOML parser takes quadratic time for a long dotted key,
and digits or exponents become gigabytes once they are numbers.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from detectors.errors import PriceTermsError

MAX_CHARACTERS: Final = 100_000
MAX_BYTES: Final = 4 * MAX_CHARACTERS  # in UTF-8
MAX_TERMS: Final = 1_000
MAX_NAME: Final = 200
MAX_DATES: Final = 200  # each is a comparison for every call
MAX_USD: Final = 1_000_000
MAX_DECIMALS: Final = 30
_TOO_LONG: Final = f"the file has over {MAX_CHARACTERS:,} characters"
_MAX_WORD: Final = 200
_MAX_QUOTED: Final = 2_000  # a name whose characters are all escaped
_MAX_DEPTH: Final = 8

_QUOTED: Final = re.compile(r"""\"{3}|'{3}|\#[^\n]*+|"(?:[^"\\\n]|\\[^\n])*+"|'[^'\n]*+'""")
_BRACKET: Final = re.compile(r"[][{}]")
_LONG_WORD: Final = re.compile(rf"[\w+-]{{{_MAX_WORD + 1}}}")
_DEEP_KEY: Final = re.compile(rf"""(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){{{_MAX_DEPTH}}}""")
_NUMBER_CHARACTERS: Final = 60


def decode(content: bytes) -> str:
    """Return the text of a file; other bytes than UTF-8 raise `UnicodeDecodeError`."""
    if len(content) > MAX_BYTES:
        raise PriceTermsError(_TOO_LONG)
    return content.decode("utf-8-sig")


def check_text(text: str) -> None:
    """Raise `PriceTermsError` for a text that is costly to parse, with the line and the limit."""
    if len(text) > MAX_CHARACTERS:
        raise PriceTermsError(_TOO_LONG)
    code = blank(text)
    long_word = _LONG_WORD.search(code)
    if long_word:
        raise _at(code, long_word, f"expected a name or a number of at most {_MAX_WORD} characters")
    deep_key = _DEEP_KEY.search(code)
    if deep_key:
        raise _at(code, deep_key, f"expected a key of at most {_MAX_DEPTH} parts")
    depth = 0
    for bracket in _BRACKET.finditer(code):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > _MAX_DEPTH:
            raise _at(code, bracket, f"expected at most {_MAX_DEPTH} brackets in one another")


def blank(text: str) -> str:
    def shorten(found: re.Match[str]) -> str:
        if found[0] in ('"""', "'''"):
            raise _at(text, found, "expected a text on one line, in single quotation marks")
        if found[0][0] == "#":
            return ""
        if len(found[0]) > _MAX_QUOTED:
            raise _at(text, found, f"expected a text of at most {_MAX_QUOTED:,} characters")
        return '""'

    return _QUOTED.sub(shorten, text)


def _at(text: str, found: re.Match[str], expected: str) -> PriceTermsError:
    return PriceTermsError(f"line {text.count(chr(10), 0, found.start()) + 1:,}: {expected}")


def read_number(value: object) -> Decimal | None:
    """Return a number from 0 to `MAX_USD` with at most `MAX_DECIMALS`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, int):
        return Decimal(value) if 0 <= value <= MAX_USD else None
    if isinstance(value, str) and len(value) > _NUMBER_CHARACTERS:
        return None
    try:
        number = Decimal(str(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    is_short = isinstance(exponent, int) and exponent >= -MAX_DECIMALS
    return number if is_short and 0 <= number <= MAX_USD else None
