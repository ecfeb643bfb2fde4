"""The hashes of a request with text, equal to the capture client's.

The client's `prompts.py` defines the canonical text. It runs in customers' programs and shares no
code with this library; a test compares both on arbitrary JSON.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from detectors.contract import LEVELS

_LONGEST: Final = LEVELS[-1]
_DEEPEST: Final = 8
# Gateways write these words where they removed text, so equal texts don't mean equal prompts.
_REMOVED: Final = ("redacted-by-litellm", "litellm_truncated")


def hash_texts(*prompts: Any) -> list[str]:
    """Hash the members of a request that contain its prompt, in the canonical order, by level.

    There is none if they contain no text, and none of a level in which a gateway removed some.
    """
    beginning = "\n".join(_beginning(prompts))[:_LONGEST]
    if not beginning and not any(True for _ in _texts(prompts)):
        return []
    found = [at for at in map(beginning.find, _REMOVED) if at >= 0]
    known = min(found, default=_LONGEST)
    digest, hashes, hashed = sha256(), list[str](), 0
    for size in LEVELS:
        if known < min(size, len(beginning)) or (hashed and len(beginning) < size):
            break
        digest.update(beginning[hashed:size].encode("utf-8", "surrogatepass"))
        hashes.append(digest.hexdigest())
        hashed = size
    return hashes


def _beginning(prompts: tuple[Any, ...]) -> Iterator[str]:
    """Yield texts until there are enough characters."""
    missing = _LONGEST
    for text in _texts(prompts):
        yield text[:_LONGEST]
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
