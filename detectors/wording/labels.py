"""Labels come from logs: shows them so that they cannot affect the text around them."""

import re
import unicodedata
from typing import Final

# Control and format characters (bidi overrides among them), surrogates, line separators.
_ACTIVE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
JOINERS: Final = "\u200c\u200d"
_VIRAMA: Final = 9  # the combining class of signs that join consonants
_LETTERS: Final = frozenset("LM")  # major categories

# What mail programs and chats make a link of: a scheme, a network share, an address, or a name or
# number of a host. Any dot before letters may be that of a domain, because there are domains in all
# scripts, of any length, with a dot at their end, and written with the dots of other scripts.
_LINK: Final = re.compile(
    r"://|\\\\|(?:mailto|tel|sms|callto|data|file|javascript):|\bwww\.|\S@\S"
    r"|[^\s/.][.。．｡](?:[a-z]{2}|[^\x00-\x7f])|\d{1,3}(?:\.\d{1,3}){3}",
    re.IGNORECASE,
)
_LINK_START: Final = re.compile(r"://|\bwww\.|(?<=\w)@(?=\w)", re.IGNORECASE)


def inert(label: str) -> str:
    """Escape every character of a label that could move, hide or reorder others.

    A joiner stays where its script needs it to write a word, or between the pictures of an emoji.
    """
    if label.isprintable():  # a fast check; no such character is printable
        return label
    return "".join(
        ascii(character)[1:-1]
        if unicodedata.category(character) in _ACTIVE_CATEGORIES
        and not (
            character in JOINERS and _joins(label[max(0, at - 16) : at], label[at + 1 : at + 2])
        )
        else character
        for at, character in enumerate(label)
    )


def _joins(before: str, after: str) -> bool:
    """Check whether a joiner between these has an effect that its readers expect.

    As RFC 5892 has it for domain names (appendices A.1 and A.2), that is beside a virama, and
    between letters of a script whose letters are joined. Anywhere else it is invisible, so that
    two labels could look the same.
    """
    last, following = before[-1:] or " ", after or " "
    if unicodedata.combining(last) == _VIRAMA:
        return True
    if unicodedata.combining(following) == _VIRAMA:
        return unicodedata.category(last)[0] in _LETTERS
    if unicodedata.category(following) == "So":
        shown = before.rstrip("\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
        return unicodedata.category(shown[-1:] or " ") == "So"
    letter = next((each for each in reversed(before) if not unicodedata.combining(each)), " ")
    return unicodedata.bidirectional(letter) == unicodedata.bidirectional(following) == "AL"


def may_be_link(label: str) -> bool:
    """Check for text that a mail program or a chat could make a link of."""
    return _LINK.search(label) is not None


def unlinked(text: str) -> str:
    """Add a space to each address, so that a PDF viewer doesn't make a link of it."""
    return _LINK_START.sub(lambda start: f"{start[0]} ", text)


def is_right_to_left(text: str) -> bool:
    """Check whether the text would reorder the text around it."""
    return any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)


def shortened(label: str, longest: int) -> str:
    """Shorten a label to `longest` characters, with an ellipsis."""
    text = inert(label)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
