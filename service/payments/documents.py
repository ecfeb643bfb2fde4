"""Read a payment provider's JSON: strict where it matters, and safe to store."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

from service.errors import BadRequestError, InvalidRequestError

T = TypeVar("T")

# Currencies whose smallest unit isn't a hundredth in the payment providers' amounts.
_WHOLE_UNITS: Final = re.compile("BIF|CLP|DJF|GNF|JPY|KMF|KRW|MGA|PYG|RWF|VND|VUV|XAF|XOF|XPF")
_THOUSANDTHS: Final = re.compile("BHD|IQD|JOD|KWD|LYD|OMR|TND")
# msgspec crashes Python if two threads are the first to convert to a type.
_CONVERTING: Final = Lock()
_MAX_MINOR: Final = 10**15  # more than any payment, and small enough to store


def decode_document(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a verified body, without NUL, which PostgreSQL can't store."""
    try:
        document = _without_nul(msgspec.json.decode(body))
    except (ValueError, RecursionError):
        raise BadRequestError("The body isn't valid JSON.") from None
    if not isinstance(document, dict):
        raise BadRequestError("The body must be a JSON object.")
    return document


def convert(document: Any, shape: type[T]) -> T:
    """Convert the fields that we read to the types that the payment provider documents."""
    try:
        with _CONVERTING:
            return msgspec.convert(document, shape)
    except (msgspec.ValidationError, ValueError):
        # The payment provider sends the event again and shows the failure in its dashboard.
        raise InvalidRequestError("The event doesn't have the documented shape.") from None


def to_amount(minor: int | str, currency: str) -> Decimal:
    """Convert to whole currency units; raise `InvalidRequestError` if it is out of range."""
    amount, code = Decimal(minor), currency.upper()
    if amount.copy_abs() > _MAX_MINOR:
        raise InvalidRequestError("Invalid amount.")
    digits = 0 if _WHOLE_UNITS.fullmatch(code) else 3 if _THOUSANDTHS.fullmatch(code) else 2
    return amount.scaleb(-digits)


def to_time(value: int | datetime) -> datetime:
    """Convert to a time with a time zone; raise `InvalidRequestError` if it is out of range."""
    try:
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidRequestError("Invalid time.") from None


def find_text(document: object, *names: str) -> str | None:
    """Return the value of the first of these keys that holds a non-empty string, if any."""
    fields = document if isinstance(document, Mapping) else {}
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), None)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    return value
