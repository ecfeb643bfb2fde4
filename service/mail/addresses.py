"""What passes for an email address. One that does can break out of no header and no log line."""

import re
from typing import Final

MAX_LENGTH: Final = 254
_MAX_NAME_LENGTH: Final = 64
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# As browsers check it, but without stray dots in front of the @, which mail servers refuse.
PATTERN: Final = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
_SHAPE: Final = re.compile(PATTERN, re.ASCII)


def find_address(text: str) -> str | None:
    """The address as it is stored and compared, in lower case; None for what is none."""
    address = text.strip(" \t\r\n").lower()
    if len(address) > MAX_LENGTH or address.find("@") > _MAX_NAME_LENGTH:
        return None
    # What looks like an encoded word would be decoded into a header, line breaks and all.
    return address if _SHAPE.fullmatch(address) and "=?" not in address else None
