"""Stricter checks than the payment providers' verifiers: clock skew both ways, odd headers."""

import re
import time
from collections.abc import Callable
from typing import Final

from service.core.logs import get_logger
from service.errors import BadRequestError

TOLERANCE_SECONDS: Final = 300
_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")
_log = get_logger(__name__)


def check_signature(
    provider: str, is_authentic: Callable[[], object], signed_at: str | None
) -> None:
    """Raise `BadRequestError` unless the signature is valid and recent.

    `signed_at` is the time in the signature. Any exception of the verifier counts as invalid,
    because the payment providers' verifiers raise various errors while parsing.
    """
    if signed_at is None or not _is_about_now(int(signed_at)):
        raise _refused(provider, "time")
    try:
        is_valid = bool(is_authentic())
    except Exception as error:
        raise _refused(provider, type(error).__name__) from None  # its text contains the body
    if not is_valid:
        raise _refused(provider, "signature")


def find_timestamp(header: str, *, separator: str, name: str) -> str | None:
    """Return the time in a signature header; None if there is none or more than one."""
    parts = (part.partition("=") for part in header.split(separator))
    times = [value for key, _, value in parts if key == name]
    return times[0] if len(times) == 1 and _TIMESTAMP.fullmatch(times[0]) else None


def _is_about_now(signed_at: int) -> bool:
    return abs(time.time() - signed_at) <= TOLERANCE_SECONDS


def _refused(provider: str, reason: str) -> BadRequestError:
    _log.warning("webhook_refused", provider=provider, reason=reason)
    return BadRequestError("Signature missing, invalid or expired.")
