"""Strict decoding of JSON into plain Python values, safe for hostile input.

Used after typed decoding has failed, to find out why.
"""

import json
import re
from codecs import getincrementaldecoder
from typing import Final

import msgspec

from detectors.errors import MalformedJSONError, NestedTooDeeplyError, TooComplexError

# A value takes up to fifty times its bytes in memory; a call of counts has less than a hundred.
MAX_VALUES: Final = 100_000
# Longer than any call of counts.
LONG_BYTES: Final = 1 << 16

# Too large for any field, and small enough to stay an ordinary integer.
_HUGE: Final = 10**30
_NOT_JSON: Final = "This is not JSON. Send one JSON object in UTF-8."
# Numbers beyond the range of floats are valid JSON; they become infinity, which no field accepts.
# A string without an end is one string too: a search from each of its quotes would be quadratic.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
# So many at a time that replacing them takes little memory.
_STRINGS: Final = re.compile(rb'(?:[^"]{0,4096}+"(?:[^"\\]++|\\.)*+"?+){1,5000}+', re.DOTALL)
_BARE: Final = re.compile(rb'[^"]{1,1048576}+')
_COMMA_TOO_MANY: Final = re.compile(rb"[,{\[]\s*+,|,\s*+(?:[}\]]|\Z)")
_DECODER: Final = msgspec.json.Decoder(float_hook=float)
_PIECE_BYTES: Final = 1 << 20
_SYNTAX: Final = msgspec.json.Decoder(msgspec.Raw)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COLON: Final = re.compile(rb"\s*+:")
_LONG_TEXT: Final = "x" * LONG_BYTES


def decode_document(text: bytes | memoryview) -> object:
    """Return the text's value; the last of duplicate keys counts.

    Raises
    ------
    MalformedJSONError
        The text is not JSON.
    TooComplexError
        JSON of so many values that decoding it would take too much memory.
    """
    if has_many_values(text):
        check_syntax(text)
        raise TooComplexError(MAX_VALUES)
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError:  # an integer of more digits than the fast decoder accepts
        try:
            return json.loads(
                bytes(text).decode(), parse_int=_parse_integer, parse_constant=_refuse
            )
        except ValueError:
            raise MalformedJSONError(_NOT_JSON) from None
        except RecursionError:
            raise NestedTooDeeplyError from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MalformedJSONError(_NOT_JSON) from None
    except RecursionError:
        raise NestedTooDeeplyError from None


def decode_long_object(text: memoryview) -> object:
    """Return an object in which a long value has a short one in its place, that is as wrong.

    Raises `TooComplexError` for many values, and for a key that is too long.
    """
    if has_many_values(text) or has_long_key(text):
        check_syntax(text)
        raise TooComplexError(MAX_VALUES)
    try:
        members = _MEMBERS.decode(text)
    except msgspec.ValidationError:
        return None
    short: dict[str, object] = {}
    for key, value in members.items():
        text = memoryview(value)
        if len(text) <= LONG_BYTES:
            short[key] = decode_document(text)
        else:
            first = bytes(text[:1])
            short[key] = _LONG_TEXT if first == b'"' else [] if first in b"[{" else _HUGE
    return short


def has_long_key(text: bytes | memoryview) -> bool:
    """Check whether a well-formed text has a key that is longer than any call."""
    return len(text) > LONG_BYTES and any(
        match.end() - match.start() > LONG_BYTES and _COLON.match(text, match.end())
        for match in _STRING.finditer(text)
    )


def check_syntax(text: bytes | memoryview) -> None:
    """Raise `MalformedJSONError` unless the text is JSON in UTF-8; keep none of it."""
    encoding = getincrementaldecoder("utf-8")()
    try:
        _SYNTAX.decode(text)
        for start in range(0, len(text), _PIECE_BYTES):
            encoding.decode(text[start : start + _PIECE_BYTES])
        encoding.decode(b"", final=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MalformedJSONError(_NOT_JSON) from None
    except RecursionError:
        raise NestedTooDeeplyError from None


def has_many_values(text: bytes | memoryview) -> bool:
    """Check whether the text has more than `MAX_VALUES` values, without decoding it."""
    return len(text) > LONG_BYTES and count_values(text) > MAX_VALUES


def count_values(text: bytes | memoryview) -> int:
    """Return how many values a JSON text has, within one per object or array that is not empty."""
    count = start = 0
    while start < len(text):
        run = _STRINGS.match(text, start) or _BARE.match(text, start)
        end = run.end() if run else len(text)
        bare = _STRING.sub(b"", text[start:end])
        count += bare.count(b",") + bare.count(b"[") + bare.count(b"{")
        start = end
    return count


def reason_of(text: bytes) -> str:
    """Return why a text is not JSON, for common mistakes of handwritten JSON.

    The reason repeats nothing of the text. Long texts are not handwritten.
    """
    if len(text) > LONG_BYTES:
        return "not JSON"
    bare = _STRING.sub(b'""', text).strip()
    if not bare:
        return "not JSON: an extra comma, with nothing after it"
    if bare.endswith(b"},"):
        return "not JSON: a comma after the object"
    if _COMMA_TOO_MANY.search(bare):
        return "not JSON: an extra comma"
    return "not JSON"


def _parse_integer(digits: str) -> int:
    return int(digits) if len(digits) <= 30 else -_HUGE if digits.startswith("-") else _HUGE


def _refuse(constant: str) -> object:
    raise ValueError(constant)
