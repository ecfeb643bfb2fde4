"""The counts of a call, from the `usage` of whatever object the vendor's library made of it.

Nothing else of a response is looked at here, and nothing that a property or a method would compute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_COUNT = 1_000_000_000_000
ANTHROPIC_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_NO_MEMBERS: dict[str, Any] = {}


class Counts(NamedTuple):
    """As a record has them: the prompt includes what was read from a cache and written to one."""

    prompt: int
    completion: int
    cached: int | None
    cache_write: int | None


def members_of(container: Any) -> dict[str, Any]:
    """Of a model or of a mapping; of anything else none.

    Older libraries keep what they do not know yet in a model's extra members.
    """
    if isinstance(container, dict):
        return container
    members = getattr(container, "__dict__", None)
    if not isinstance(members, dict):
        return _NO_MEMBERS
    extra = getattr(container, "__pydantic_extra__", None)
    return {**members, **extra} if extra and isinstance(extra, dict) else members


def count_of(value: Any) -> int | None:
    """The value where it is a count that the service takes."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def openai_counts(usage: Any, endpoint: str | None) -> Counts | None:
    """Of Chat Completions and Embeddings, or of Responses, which name the same counts otherwise."""
    members = members_of(usage)
    prompt, completion = members.get("prompt_tokens"), members.get("completion_tokens")
    details = members.get("prompt_tokens_details")
    if prompt is None:
        prompt, completion = members.get("input_tokens"), members.get("output_tokens")
        details = members.get("input_tokens_details")
    prompt, completion = count_of(prompt), count_of(completion)
    if prompt is None:
        return None
    if completion is None:
        # Embeddings have no output; for any other call an unknown count is not zero.
        if endpoint != "embeddings" and count_of(members.get("total_tokens")) != prompt:
            return None
        completion = 0
    if details is None:
        return Counts(prompt, completion, None, None)
    parts = members_of(details)
    cached, write = parts.get("cached_tokens"), parts.get("cache_write_tokens")
    return Counts(prompt, completion, count_of(cached), count_of(write))


def anthropic_counts(usage: Any) -> Counts | None:
    """The vendor's input leaves the cached parts out."""
    members = members_of(usage)
    fresh, completion, read, write = [count_of(members.get(name)) for name in ANTHROPIC_COUNTS]
    if fresh is None or completion is None:
        return None
    return Counts(fresh + (read or 0) + (write or 0), completion, read, write)


def overlay(earlier: Any, usage: Any) -> dict[str, int]:
    """What a stream says later replaces what it said before, count by count."""
    known: dict[str, int] = {}
    for one in (earlier, usage):
        members = members_of(one)
        for name in ANTHROPIC_COUNTS:
            value = count_of(members.get(name))
            if value is not None:
                known[name] = value
    return known
