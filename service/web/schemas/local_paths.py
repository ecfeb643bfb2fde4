"""Where a sign-in may lead on to: a path of this site, and nothing that could be read otherwise."""

import re
from typing import Final
from urllib.parse import unquote

HOME: Final = "/"
_MAX_LENGTH: Final = 2_000
# Printable ASCII without a backslash, which browsers read as a slash; of two slashes at the
# beginning, what follows would be another site.
_SHAPE: Final = re.compile(r"/(?!/)[!-\[\]-~]*", re.ASCII)


def find_local_path(text: str | None) -> str | None:
    """The path, as it came; None for what leads elsewhere, or might to some reader of it."""
    if text is None or len(text) > _MAX_LENGTH:
        return None
    is_safe = _SHAPE.fullmatch(text) and _is_harmless(unquote(text)) and _is_harmless(text)
    return text if is_safe else None


def _is_harmless(text: str) -> bool:
    """Whether it is a path even to who decodes it once too often, or drops what it cannot read."""
    path = text.partition("?")[0].partition("#")[0]
    return path.startswith("/") and path[1:2] != "/" and path.isprintable() and "\\" not in path
