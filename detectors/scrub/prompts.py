"""`prefix_hash` of a request that came with its text: the same hash as the capture client's.

The canonical text is that of the client's `prompts.py`, which runs in other people's programs and
shares no code with this library; a test holds the two equal on whatever JSON can say.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

_HASHED_CHARACTERS: Final = 4_096
_DEEPEST: Final = 8
# What gateways put where they have taken text away: equal words there prove no equal prompts.
_TAKEN_AWAY: Final = ("redacted-by-litellm", "litellm_truncated")


def hash_texts(*prompts: Any) -> str | None:
    """The hash over the members of a request that hold its prompt, in the canonical order.

    None where there is no text in them, or where some of it was taken away before.
    """
    beginning = "\n".join(_beginning(prompts))
    if not beginning and not any(True for _ in _texts(prompts)):
        return None
    beginning = beginning[:_HASHED_CHARACTERS]
    if any(mark in beginning for mark in _TAKEN_AWAY):
        return None
    return sha256(beginning.encode("utf-8", "surrogatepass")).hexdigest()


def _beginning(prompts: tuple[Any, ...]) -> Iterator[str]:
    """Texts until there are enough characters, and perhaps more."""
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
    """The texts of a JSON value: a string is one, an object's is its `text` or in its `content`."""
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
