"""Validate email addresses. A valid address can't inject headers or log lines."""

import re
from typing import Final

MAX_LENGTH: Final = 254
_MAX_NAME_LENGTH: Final = 64
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The same check as in browsers, but without misplaced dots, which mail servers reject.
PATTERN: Final = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
_SHAPE: Final = re.compile(PATTERN, re.ASCII)


def find_address(text: str) -> str | None:
    """Return the address in lower case, as it is stored; None if it is invalid."""
    address = text.strip(" \t\r\n").lower()
    if len(address) > MAX_LENGTH or address.find("@") > _MAX_NAME_LENGTH:
        return None
    # An encoded word would be decoded in a header, including line breaks.
    return address if _SHAPE.fullmatch(address) and "=?" not in address else None


def mask_address(address: str) -> str:
    """Return the address for a page that anyone with a sign-in link may see."""
    name, _, host = address.partition("@")
    return f"{name[:1]}…@{host}"
