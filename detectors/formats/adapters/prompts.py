"""The `prefix_hash` of a request with text, equal to the capture client's.

The client's `prompts.py` defines the canonical text. It runs in customers' programs and shares no
code with this library; a test compares both on arbitrary JSON.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

_HASHED_CHARACTERS: Final = 4_096
_DEEPEST: Final = 8
# Gateways write these words where they removed text, so equal texts don't mean equal prompts.
_REMOVED: Final = ("redacted-by-litellm", "litellm_truncated")


def hash_texts(*prompts: Any) -> str | None:
    """Hash the members of a request that contain its prompt, in the canonical order.

    None if they contain no text, or if a gateway removed some of it.
    """
    beginning = "\n".join(_beginning(prompts))
    if not beginning and not any(True for _ in _texts(prompts)):
        return None
    beginning = beginning[:_HASHED_CHARACTERS]
    if any(mark in beginning for mark in _REMOVED):
        return None
    return sha256(beginning.encode("utf-8", "surrogatepass")).hexdigest()


def _beginning(prompts: tuple[Any, ...]) -> Iterator[str]:
    """Yield texts until there are enough characters."""
    missing = _HASHED_CHARACTERS
    for text in _texts(prompts):
        yield text[:_HASHED_CHARACTERS]
        missing -= len(text) + 1
        if missing < 0:
            return


def _texts(prompts: tuple[Any, ...]) -> Iterator[str]:
    for prompt in prompts:
        if isinstance(prompt, str):
            yield prompt
        elif prompt is not None:
            yield from _texts_of(prompt, _DEEPEST)


def _texts_of(value: Any, deepest: int) -> Iterator[str]:
    """Yield the texts of a JSON value: strings, and the `text` or `content` of objects."""
    if isinstance(value, str):
        yield value
    elif not deepest:
        return
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item, deepest - 1)
    elif isinstance(value, dict):
        text = value.get("text")
        inner = text if isinstance(text, str) else value.get("content")
        yield from _texts_of(inner, deepest - 1)
