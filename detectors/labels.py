"""Labels are other people's text: how they are shown without acting on what is around them."""

import unicodedata
from typing import Final

# Control and format characters (bidi overrides among them), surrogates, line separators.
_ACTIVE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def inert(label: str) -> str:
    """The label with every character escaped that could move, hide or reorder others."""
    return "".join(
        ascii(character)[1:-1]
        if unicodedata.category(character) in _ACTIVE_CATEGORIES
        else character
        for character in label
    )


def shortened(label: str, longest: int) -> str:
    """The inert label, cut with an ellipsis where it is longer than that."""
    text = inert(label)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
