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
_DEEPEST = 8
_MEMBERS = ("system", "instructions", "messages", "input", "prompt")


def hash_captured(body: Mapping[str, Any], key: bytes | None) -> Hashes:
    """Return the hashes that leave this process: of long prompts, or of any with a secret key."""
    return hash_prefixes(body, key, 0 if key else SHORTEST_HASHED)


def hash_prefixes(body: Mapping[str, Any], key: bytes | None = None, least: int = 0) -> Hashes:
    """Return the hash of the prompt's beginning, and those of all levels that it reaches.

    A prompt of fewer characters than `least` has none.
    """
    parts: list[str] = []
    length, longest = -1, LEVELS[-1]
    for text in _texts(body):
        parts.append(text[:longest])
        length += 1 + len(text)
        if length >= longest:
            break
    if not parts or length < least:
        return None, None
    beginning = parts[0] if len(parts) == 1 else "\n".join(parts)[:longest]
    # Of ASCII, a character is a byte: nothing is copied for a level.
    known = memoryview(beginning.encode()) if beginning.isascii() else None
    digest, hashes, hashed = _digest(key), list[str](), 0
    for size in LEVELS:
        if hashed and len(beginning) < size:
            break
        if known is None:
            digest.update(beginning[hashed:size].encode("utf-8", "surrogatepass"))
        else:
            digest.update(known[hashed:size])
        hashes.append(digest.hexdigest())
        hashed = size
    return hashes[0], tuple([each[:LEVEL_DIGITS] for each in hashes])


def _digest(key: bytes | None) -> Any:
    if key is None:
        return sha256()
    import hmac  # few programs have a key

    return hmac.new(key, digestmod=sha256)


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    for name in _MEMBERS:
        yield from _parts(body.get(name), _DEEPEST)


def _parts(value: Any, depth: int) -> Iterator[str]:
    """Only lists and tuples are gone through: what else can be iterated may be so only once."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _parts(item, depth - 1)
    elif depth and value is not None:
        members = members_of(value)
        text = members.get("text")
        inner = members.get("content", members.get("parts"))
        yield from _parts(text if isinstance(text, str) else inner, depth - 1)
