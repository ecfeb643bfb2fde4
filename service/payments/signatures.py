"""What the providers' own verifiers leave open: the clock in both directions, and odd headers."""

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
    """Raise `BadRequestError` unless the provider's verifier agrees and the time is about now.

    `signed_at` is the time that the signature covers. A verifier that raises does not agree,
    whatever it raises: the providers' own raise what their parsing happens to meet.
    """
    if signed_at is None or not _is_about_now(int(signed_at)):
        raise _refused(provider, "time")
    try:
        agrees = bool(is_authentic())
    except Exception as error:
        raise _refused(provider, type(error).__name__) from None  # its text holds the body
    if not agrees:
        raise _refused(provider, "signature")


def find_timestamp(header: str, *, separator: str, name: str) -> str | None:
    """The one time in a signature's header; none where there is none, or several to choose from."""
    parts = (part.partition("=") for part in header.split(separator))
    times = [value for key, _, value in parts if key == name]
    return times[0] if len(times) == 1 and _TIMESTAMP.fullmatch(times[0]) else None


def _is_about_now(signed_at: int) -> bool:
    return abs(time.time() - signed_at) <= TOLERANCE_SECONDS


def _refused(provider: str, reason: str) -> BadRequestError:
    _log.warning("webhook_refused", provider=provider, reason=reason)
    return BadRequestError("The signature is missing, does not fit the body, or is not of now.")
