"""Hash prompts, so that equal prompts can be found without their text.

The canonical text of a prompt: the text parts of its `system` or `instructions`, then of each
message or input item (`messages`, `input`, `prompt`), in order, joined by a line feed. A part's
text is the string itself, or its `text`, or else the parts in its `content`, or in its `parts` as
Gemini names them. Of that text the first 4,096 characters, as UTF-8, are hashed, and the first
5,793 and so on up to 262,144, each √2 times the last, where there are so many. A short text could
be found from its hash by trying texts, so a hash of one needs a secret key.
Nothing here keeps a text, and no iterator is ever advanced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Optional

from tallystick.reading.usage.reader import members_of

SHORTEST_HASHED = 1_024
# Copied from the record's contract; a test compares them.
LEVELS = (
    *(4_096, 5_793, 8_192, 11_585, 16_384, 23_170, 32_768, 46_341, 65_536),
    *(92_682, 131_072, 185_364, 262_144),
)
LEVEL_DIGITS = 16
# The hash of the first level, and the first digits of those of all levels.
Hashes = tuple[Optional[str], Optional[tuple[str, ...]]]
_FIRST, *_FURTHER = LEVELS
_SECOND = _FURTHER[0]
_DEEPEST = 8
# More texts than this are worth a look at how many characters are needed.
_MANY_TEXTS = 64
_MEMBERS = ("system", "instructions", "messages", "input", "prompt")


def hash_prefixes(body: Mapping[str, Any], key: bytes | None = None, least: int = 0) -> Hashes:
    """Return the hash of the prompt's beginning, and those of all levels that it reaches.

    A prompt of fewer characters than `least` has none.
    """
    texts: list[str] = []
    for name in _MEMBERS:
        if name in body:
            value = body[name]
            if type(value) is str:
                texts.append(value)
                continue
            for item in value if type(value) is list else (value,):
                # Most messages have this form, and a call for each takes a third of the time of the
                # hash of a short prompt.
                inner = item
                if type(item) is dict and "content" in item and "text" not in item:
                    inner = item["content"]
                if type(inner) is str:
                    texts.append(inner)
                else:
                    depth = _DEEPEST - (item is not value) - (inner is not item)
                    _add_texts(texts, inner, depth)
    if not texts:
        return None, None
    if len(texts) > _MANY_TEXTS:
        texts = list(_until(texts, LEVELS[-1]))
    text = "\n".join(texts)
    length = len(text)
    if length < least:
        return None, None
    piece = text[:_FIRST]
    try:
        encoded = piece.encode()
    except UnicodeEncodeError:  # a lone surrogate
        encoded = piece.encode("utf-8", "surrogatepass")
    digest = sha256(encoded) if key is None else _start_keyed(encoded, key)
    first = digest.hexdigest()
    if length < _SECOND:  # most prompts reach one level
        return first, (first[:LEVEL_DIGITS],)
    return first, (first[:LEVEL_DIGITS], *_hash_further(digest, text, length))


def _until(texts: list[str], longest: int) -> Iterator[str]:
    """Yield texts until they have as many characters: a long chat isn't copied as a whole."""
    length = 0
    for text in texts:
        yield text
        length += len(text)
        if length >= longest:
            break


def _hash_further(digest: Any, text: str, length: int) -> Iterator[str]:
    """Yield the hash of each further level.

    In pieces, which are freed at once: the system takes longer to give the memory of a long text
    than its hashes take.
    """
    size = _FIRST
    for end in _FURTHER:
        if end > length:
            break
        digest.update(text[size:end].encode("utf-8", "surrogatepass"))
        yield digest.hexdigest()[:LEVEL_DIGITS]
        size = end


def _start_keyed(piece: bytes, key: bytes) -> Any:
    import hmac  # few programs have a key

    return hmac.new(key, piece, sha256)


def _add_texts(texts: list[str], value: Any, depth: int) -> None:
    """Add the texts in a value, in order.

    Only lists and tuples are gone through: what else can be iterated may be so only once.
    """
    if isinstance(value, (list, tuple)):
        for item in value if depth else ():
            text = item.get("text") if type(item) is dict and depth > 1 else None
            if type(text) is str:
                texts.append(text)
            elif type(item) is not int:  # as prompts of tokens have many
                _add_texts(texts, item, depth - 1)
    elif isinstance(value, str):
        texts.append(value)
    elif depth and value is not None and type(value) is not int:
        members = members_of(value)
        text = members.get("text")
        inner = members.get("content", members.get("parts"))
        _add_texts(texts, text if isinstance(text, str) else inner, depth - 1)
