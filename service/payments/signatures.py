"""Stricter checks than the payment providers' verifiers: clock skew both ways, odd headers."""

import re
import time
from collections.abc import Callable, Iterable
from typing import Final

from service.core.logs import get_logger
from service.errors import BadRequestError

TOLERANCE_SECONDS: Final = 300
_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")
_log = get_logger(__name__)


def check_signature(
    provider: str,
    secrets: Iterable[str],
    is_authentic: Callable[[str], object],
    signed_at: str | None,
) -> None:
    """Raise `BadRequestError` unless the signature is recent and valid with any of the secrets.

    `signed_at` is the time in the signature. Any exception of the verifier counts as invalid,
    because the payment providers' verifiers raise various errors while parsing.
    """
    if signed_at is None or abs(time.time() - int(signed_at)) > TOLERANCE_SECONDS:
        raise _refused(provider, "time")
    reason = "signature"
    for secret in secrets:
        try:
            if is_authentic(secret):
                return
        except Exception as error:
            reason = type(error).__name__  # its text contains the body
    raise _refused(provider, reason)


def find_timestamp(header: str, *, separator: str, name: str) -> str | None:
    """Return the time in a signature header; None if there is none or more than one."""
    parts = (part.partition("=") for part in header.split(separator))
    times = [value for key, _, value in parts if key == name]
    return times[0] if len(times) == 1 and _TIMESTAMP.fullmatch(times[0]) else None


def _refused(provider: str, reason: str) -> BadRequestError:
    _log.warning("webhook_refused", provider=provider, reason=reason)
    return BadRequestError("Signature missing, invalid or expired.")
