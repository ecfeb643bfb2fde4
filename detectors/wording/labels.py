"""Labels are other people's text: how they are shown without acting on what is around them."""

import unicodedata
from typing import Final

# Control and format characters (bidi overrides among them), surrogates, line separators.
_ACTIVE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})


def inert(label: str) -> str:
    """The label with every character escaped that could move, hide or reorder others."""
    if label.isprintable():  # which is told at once, and no such character is
        return label
    return "".join(
        ascii(character)[1:-1]
        if unicodedata.category(character) in _ACTIVE_CATEGORIES
        else character
        for character in label
    )


def is_right_to_left(text: str) -> bool:
    """Whether the text would turn the order of what stands around it."""
    return any(unicodedata.bidirectional(one) in _RIGHT_TO_LEFT for one in text)


def shortened(label: str, longest: int) -> str:
    """The inert label, cut with an ellipsis where it is longer than that."""
    text = inert(label)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
