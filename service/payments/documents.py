"""Reading a provider's JSON: strict where it matters, and safe to store."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from service.errors import BadRequestError, InvalidRequestError

T = TypeVar("T")

# Currencies whose smallest unit is not a hundredth, as the providers write amounts.
_WHOLE_UNITS: Final = re.compile("BIF|CLP|DJF|GNF|JPY|KMF|KRW|MGA|PYG|RWF|VND|VUV|XAF|XOF|XPF")
_THOUSANDTHS: Final = re.compile("BHD|IQD|JOD|KWD|LYD|OMR|TND")
_MAX_MINOR: Final = 10**15  # more than any payment, and no more than can be stored


def decode_document(body: bytes) -> dict[str, Any]:
    """The JSON object of a verified body, without the NUL characters that PostgreSQL refuses."""
    try:
        document = _without_nul(msgspec.json.decode(body))
    except (ValueError, RecursionError):
        raise BadRequestError("The body is not JSON.") from None
    if not isinstance(document, dict):
        raise BadRequestError("The body is no JSON object.")
    return document


def convert(document: Any, shape: type[T]) -> T:
    """The fields that we read, of the types that the provider documents."""
    try:
        return msgspec.convert(document, shape)
    except (msgspec.ValidationError, ValueError):
        # Not for good: the provider sends it again, and shows that it is refused.
        raise InvalidRequestError("The event has not the documented shape.") from None


def to_amount(minor: int | str, currency: str) -> Decimal:
    """An amount in whole units of its currency; raises `InvalidRequestError` where it is none."""
    amount, code = Decimal(minor), currency.upper()
    if amount.copy_abs() > _MAX_MINOR:
        raise InvalidRequestError("The event has no amount that can be.")
    digits = 0 if _WHOLE_UNITS.fullmatch(code) else 3 if _THOUSANDTHS.fullmatch(code) else 2
    return amount.scaleb(-digits)


def to_time(reported: int | datetime) -> datetime:
    """A provider's time with its zone; raises `InvalidRequestError` where it can be none."""
    try:
        if isinstance(reported, datetime):
            return reported if reported.tzinfo else reported.replace(tzinfo=UTC)
        return datetime.fromtimestamp(reported, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequestError("The event has no time that can be.") from None


def find_text(document: object, *names: str) -> str | None:
    """The first of these keys that holds a text, where there is an object at all."""
    fields = document if isinstance(document, Mapping) else {}
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), None)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    return value
