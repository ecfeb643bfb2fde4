"""One JSON text into plain Python values, strictly, whatever the text does.

Used where typed decoding has failed and somebody has to say why.
"""

import json
import re
from typing import Final

import msgspec

from detectors.errors import MalformedJSONError, NestedTooDeeplyError

# Too large for any field, and small enough to stay an ordinary integer.
_HUGE: Final = 10**30
_NOT_JSON: Final = "not JSON: expected one JSON object in UTF-8"
# Numbers beyond the range of floats are syntactically fine: as infinity they fail the field.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_COMMA_TOO_MANY: Final = re.compile(rb"[,{\[]\s*+,|,\s*+(?:[}\]]|\Z)")
_DECODER: Final = msgspec.json.Decoder(float_hook=float)


def decode_document(text: bytes) -> object:
    """The text's value, of duplicate keys the last; `MalformedJSONError` where it is not JSON."""
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError:
        return _decode_with_huge_numbers(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MalformedJSONError(_NOT_JSON) from None
    except RecursionError:
        raise NestedTooDeeplyError from None


def reason_of(text: bytes) -> str:
    """Why a text that is not JSON is not, where that is the mistake of those who write it by hand.

    Says nothing of what stands in the text.
    """
    bare = _STRING.sub(b'""', text).strip()
    if not bare:
        return "not JSON: nothing stands there, so there is a comma too many"
    if bare.endswith(b"},"):
        return "not JSON: a comma follows the object"
    if _COMMA_TOO_MANY.search(bare):
        return "not JSON: there is a comma too many"
    return "not JSON"


def _decode_with_huge_numbers(text: bytes) -> object:
    """The same for a text with integers of more digits than the fast decoder converts."""
    try:
        return json.loads(text.decode(), parse_int=_parse_integer, parse_constant=_refuse)
    except ValueError:
        raise MalformedJSONError(_NOT_JSON) from None
    except RecursionError:
        raise NestedTooDeeplyError from None


def _parse_integer(digits: str) -> int:
    return int(digits) if len(digits) <= 30 else -_HUGE if digits.startswith("-") else _HUGE


def _refuse(constant: str) -> object:
    raise ValueError(constant)
