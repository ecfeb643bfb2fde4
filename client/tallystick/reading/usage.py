"""Read a call's counts from the `usage` of the library's response object.

Nothing else of a response is read, and no property or method is called.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Callable, Optional

MAX_COUNT = 1_000_000_000_000
ANTHROPIC_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_of_completion = itemgetter(
    *("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
)
_of_response = itemgetter(
    *("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
)
# How a usage is read by its endpoint, as OpenAI's own classes have it.
USUAL: dict[str | None, Callable[[Any], tuple[Any, ...]]] = {
    "chat/completions": _of_completion,
    "completions": _of_completion,
    "responses": _of_response,
}
_USUAL_KINDS = frozenset(
    (int, int, cached, write) for cached in (int, type(None)) for write in (int, type(None))
)
_NO_MEMBERS: dict[str, Any] = {}

# Of the prompt, of the completion, read from a cache, written to one. As a record has them: the
# prompt includes what was read and written. A bare tuple, since one is made in every call.
Counts = tuple[int, int, Optional[int], Optional[int]]


def members_of(container: Any) -> dict[str, Any]:
    """Return the members of a model or a mapping; empty for anything else.

    Older libraries keep what they do not know yet in a model's extra members.
    """
    if type(container) is dict:
        return container
    try:
        if not container.__pydantic_extra__:
            members: dict[str, Any] = container.__dict__
            return members
    except AttributeError:
        pass
    return _all_members_of(container)


def _all_members_of(container: Any) -> dict[str, Any]:
    if isinstance(container, dict):
        return container
    try:
        members, extra = container.__dict__, container.__pydantic_extra__
    except AttributeError:
        members, extra = getattr(container, "__dict__", None), None
    if not isinstance(members, dict):
        return _NO_MEMBERS
    return {**members, **extra} if extra and isinstance(extra, dict) else members


def count_of(value: Any) -> int | None:
    """Return the value if it is a count that the service accepts, or else None."""
    if type(value) is not int:
        if type(value) is not float or not value.is_integer():
            return None
        value = int(value)
    return value if 0 <= value <= MAX_COUNT else None


def usual_usage(
    usage: Any, read: Callable[[Any], tuple[Any, ...]]
) -> tuple[Counts, int | None] | None:
    """Return the counts and the reasoning tokens of OpenAI's own classes in the fewest steps.

    `read` is one of `USUAL`. Returns None for what is unusual: other kinds of values, audio,
    images, members that the library does not know, a sum that does not add up.
    """
    members = usage.__dict__
    prompt, completion, asked, answered = read(members)
    cached = write = reasoning = None
    is_odd: Any = usage.__pydantic_extra__ or "prompt_cache_hit_tokens" in members
    if asked is not None:
        part = asked.__dict__.get
        cached, write = part("cached_tokens"), part("cache_write_tokens")
        is_odd = is_odd or asked.__pydantic_extra__ or part("audio_tokens") or part("image_tokens")
    if answered is not None:
        part = answered.__dict__.get
        reasoning = part("reasoning_tokens")
        is_odd = is_odd or answered.__pydantic_extra__
        is_odd = is_odd or part("audio_tokens") or part("image_tokens")
    if is_odd or (type(prompt), type(completion), type(cached), type(write)) not in _USUAL_KINDS:
        return None
    if not (0 <= prompt <= MAX_COUNT and 0 <= completion <= MAX_COUNT):
        return None
    if reasoning:
        adds_up = members.get("total_tokens") == prompt + completion
        if not adds_up or type(reasoning) is not int or reasoning < 0:
            return None
    return (prompt, completion, cached, write), reasoning


def openai_counts(usage: Any, endpoint: str | None) -> Counts | None:
    """Return the counts of Chat Completions, Embeddings or Responses."""
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
    parts = members_of(details)
    cached, write = parts.get("cached_tokens"), parts.get("cache_write_tokens")
    return prompt, completion, count_of(cached), count_of(write)


def overlay(counts: list[int | None] | None, usage: Any) -> list[int | None]:
    """Update Anthropic's counts: later values of a stream replace earlier ones."""
    members = members_of(usage)
    if counts is None:
        counts = [None, None, None, None]
    index = 0
    for name in ANTHROPIC_COUNTS:
        count = members.get(name)
        if type(count) is not int or not 0 <= count <= MAX_COUNT:
            count = None if count is None else count_of(count)
        if count is not None:
            counts[index] = count
        index += 1  # noqa: SIM113 - `enumerate` would make a tuple for each
    return counts


def anthropic_counts(counts: list[int | None]) -> Counts | None:
    """Convert Anthropic's counts, whose input excludes cached tokens."""
    fresh, completion, read, write = counts
    if fresh is None or completion is None:
        return None
    return fresh + (read or 0) + (write or 0), completion, read, write
