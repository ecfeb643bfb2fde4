"""Validate email addresses. A valid address can't inject headers or log lines.

Letters of any language may be in them (RFC 6531). A domain is stored as DNS knows it, `xn--…`.
"""

import re
import unicodedata
from typing import Final

import idna

MAX_LENGTH: Final = 254
_MAX_NAME_LENGTH: Final = 64
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The same check as in browsers, but without misplaced dots, which mail servers reject.
PATTERN: Final = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
# Letters with their marks, and digits, beyond ASCII; no spaces, symbols or invisible characters.
_LETTER: Final = re.compile(r"(?![\x00-\x7f_])\w[\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e]*")
_SHAPE: Final = re.compile(PATTERN, re.ASCII)


def find_address(text: str) -> str | None:
    """Return the address in lower case, as it is stored; None if it is invalid."""
    address = text.strip(" \t\r\n").lower()
    if not address.isascii():
        name, at, domain = unicodedata.normalize("NFC", address).rpartition("@")
        try:
            name.encode()  # fails for bytes of a terminal that aren't UTF-8
            address = f"{name}{at}{idna.encode(domain, uts46=True).decode()}"
        except (idna.IDNAError, UnicodeError):
            return None  # a domain that can't exist
    name = address.partition("@")[0]
    if len(address.encode()) > MAX_LENGTH or len(name.encode()) > _MAX_NAME_LENGTH:
        return None
    shape = address.replace(name, _LETTER.sub("x", name), 1)
    # An encoded word would be decoded in a header, including line breaks.
    return address if _SHAPE.fullmatch(shape) and "=?" not in address else None


def mask_address(address: str) -> str:
    """Return the address for a page that anyone with a sign-in link may see."""
    name, _, host = address.partition("@")
    return f"{name[:1]}…@{host}"
