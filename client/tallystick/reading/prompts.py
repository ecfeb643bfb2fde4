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

from collections.abc import Mapping
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
_LONGEST = LEVELS[-1]
_DEEPEST = 8
_MEMBERS = ("system", "instructions", "messages", "input", "prompt")


def hash_prefixes(body: Mapping[str, Any], key: bytes | None = None, least: int = 0) -> Hashes:
    """Return the hash of the prompt's beginning, and those of all levels that it reaches.

    A prompt of fewer characters than `least` has none.
    """
    parts: list[str] = []
    missing = _LONGEST
    for name in _MEMBERS:
        if name in body and missing >= 0:
            missing = _add_texts(parts, body[name], missing, _DEEPEST)
    if not parts:
        return None, None
    if missing < 0:
        parts[-1] = parts[-1][:_LONGEST]
    text = parts[0] if len(parts) == 1 else "\n".join(parts)
    length = len(text)
    if length < least:
        return None, None
    # In pieces, which are freed at once: the system takes longer to give the memory of a long text
    # than its hashes take. Lone surrogates pass.
    piece = text[:_FIRST].encode("utf-8", "surrogatepass")
    digest: Any
    if key is None:
        digest = sha256(piece)
    else:
        import hmac  # few programs have a key

        digest = hmac.new(key, piece, sha256)
    first = digest.hexdigest()
    if length < _FURTHER[0]:  # most prompts reach one level
        return first, (first[:LEVEL_DIGITS],)
    hashes = [first[:LEVEL_DIGITS]]
    size = _FIRST
    for end in _FURTHER:
        if end > length:
            break
        digest.update(text[size:end].encode("utf-8", "surrogatepass"))
        hashes.append(digest.hexdigest()[:LEVEL_DIGITS])
        size = end
    return first, tuple(hashes)


def _add_texts(parts: list[str], value: Any, missing: int, depth: int) -> int:
    """Add texts until none of so many characters is missing; return how many then are.

    Only lists and tuples are gone through: what else can be iterated may be so only once.
    """
    if isinstance(value, str):
        parts.append(value)
        return missing - len(value) - 1
    if not depth or value is None:
        return missing
    if isinstance(value, (list, tuple)):
        for item in value:
            if missing < 0:
                break
            # Most messages and parts are of this form, and a call for each takes half as long as
            # the hash of a short prompt.
            if type(item) is dict and depth > 1:
                inner = item.get("text")
                if type(inner) is not str:
                    inner = item["content"] if "content" in item else item.get("parts")
                if type(inner) is str:
                    parts.append(inner)
                    missing -= len(inner) + 1
                elif inner is not None:
                    missing = _add_texts(parts, inner, missing, depth - 2)
            else:
                missing = _add_texts(parts, item, missing, depth - 1)
        return missing
    members = members_of(value)
    text = members.get("text")
    inner = members.get("content", members.get("parts"))
    return _add_texts(parts, text if isinstance(text, str) else inner, missing, depth - 1)
