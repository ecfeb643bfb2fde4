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


class Counts(NamedTuple):
    """As a record has them: the prompt includes what was read from a cache and written to one."""

    prompt: int
    completion: int
    cached: int | None
    cache_write: int | None


def member(container: Any, name: str) -> Any:
    """A member of a model or of a mapping, None where there is none.

    Older libraries keep what they do not know yet in a model's extra members.
    """
    if isinstance(container, dict):
        return container.get(name)
    members = getattr(container, "__dict__", None)
    if not isinstance(members, dict):
        return None
    value = members.get(name)
    if value is None:
        extra = getattr(container, "__pydantic_extra__", None)
        return extra.get(name) if isinstance(extra, dict) else None
    return value


def has_extra(item: Any) -> bool:
    """Whether a model has members that its library does not know."""
    return bool(getattr(item, "__pydantic_extra__", None))


def count_of(container: Any, name: str) -> int | None:
    """A count within what the service takes, None where the member is anything else."""
    try:
        value = container.__dict__[name]  # where nearly every count is
    except (AttributeError, KeyError, TypeError):
        value = member(container, name)
    if type(value) is int and 0 <= value <= MAX_COUNT:
        return value
    if value is None:
        value = member(container, name)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def openai_counts(usage: Any, endpoint: str | None) -> Counts | None:
    """Of Chat Completions and Embeddings, or of Responses, which name the same counts otherwise."""
    prompt, completion, details = _named(usage, "prompt_tokens", "completion_tokens")
    if prompt is None:
        prompt, completion, details = _named(usage, "input_tokens", "output_tokens")
    if prompt is None:
        return None
    if completion is None:
        # Embeddings have no output; for any other call an unknown count is not zero.
        if endpoint != "embeddings" and count_of(usage, "total_tokens") != prompt:
            return None
        completion = 0
    cached, write = count_of(details, "cached_tokens"), count_of(details, "cache_write_tokens")
    return Counts(prompt, completion, cached, write)


def _named(usage: Any, prompt: str, completion: str) -> tuple[int | None, int | None, Any]:
    return count_of(usage, prompt), count_of(usage, completion), member(usage, prompt + "_details")


def anthropic_counts(usage: Any) -> Counts | None:
    """The vendor's input leaves the cached parts out."""
    fresh, completion = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
    if fresh is None or completion is None:
        return None
    read = count_of(usage, "cache_read_input_tokens")
    write = count_of(usage, "cache_creation_input_tokens")
    return Counts(fresh + (read or 0) + (write or 0), completion, read, write)


def overlay(earlier: dict[str, int], usage: Any) -> dict[str, int]:
    """What a stream says later replaces what it said before, count by count."""
    later = {name: count_of(usage, name) for name in ANTHROPIC_COUNTS}
    return {**earlier, **{name: value for name, value in later.items() if value is not None}}
