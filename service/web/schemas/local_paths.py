"""Validate the path to continue to after sign-in: it must be on this site."""

import re
from typing import Final
from urllib.parse import unquote

_MAX_LENGTH: Final = 2_000
# Printable ASCII without backslashes, which browsers read as slashes. Two leading slashes would
# name another site.
_SHAPE: Final = re.compile(r"/(?!/)[!-\[\]-~]*", re.ASCII)


def find_local_path(text: str | None) -> str | None:
    """Return the path unchanged; None if any parser could read it as another site."""
    if text is None or len(text) > _MAX_LENGTH:
        return None
    is_safe = _SHAPE.fullmatch(text) and _is_harmless(unquote(text)) and _is_harmless(text)
    return text if is_safe else None


def _is_harmless(text: str) -> bool:
    """Check that the text stays a local path even if it is decoded twice or stripped."""
    path = text.partition("?")[0].partition("#")[0]
    return path.startswith("/") and path[1:2] != "/" and path.isprintable() and "\\" not in path
