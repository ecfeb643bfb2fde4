"""Hash prompts, so that equal prompts can be found without their text.

The canonical text of a prompt: the text parts of its `system` or `instructions`, then of each
message or input item (`messages`, `input`, `prompt`), in order, joined by a line feed. A part's
text is the string itself, or its `text`, or else the parts in its `content`. Of that text the first
4,096 characters, as UTF-8, are hashed. Nothing here keeps a text, and no iterator is ever advanced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from tallystick.reading.usage import members_of

HASHED_CHARACTERS = 4_096
_DEEPEST = 8
_MEMBERS = ("system", "instructions", "messages", "input", "prompt")


def hash_prompt(body: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of the prompt's beginning in hex, or None if there is no text."""
    parts: list[str] = []
    length = -1
    for text in _texts(body):
        parts.append(text[:HASHED_CHARACTERS])
        length += 1 + len(text)
        if length >= HASHED_CHARACTERS:
            break
    if not parts:
        return None
    beginning = "\n".join(parts)[:HASHED_CHARACTERS]
    return sha256(beginning.encode("utf-8", "surrogatepass")).hexdigest()


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
        yield from _parts(text if isinstance(text, str) else members.get("content"), depth - 1)
