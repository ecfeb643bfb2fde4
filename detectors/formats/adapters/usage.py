"""Reads the token counts of a call from the `usage` of any provider or gateway."""

from typing import Any, NamedTuple

from detectors.contract import MAX_COUNT


class Counts(NamedTuple):
    """Token counts; `prompt` includes tokens read from and written to the cache."""

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0


def find_counts(usage: Any) -> Counts | None:
    """Return the counts of a provider's usage, if they are present and valid."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = _first(
        details.get("cached_tokens"),
        usage.get("cache_read_input_tokens"),
        usage.get("prompt_cache_hit_tokens"),  # DeepSeek's name
    )
    written = _first(
        details.get("cache_write_tokens"),
        details.get("cache_creation_tokens"),
        usage.get("cache_creation_input_tokens"),
        _sum_of_lifetimes(usage.get("cache_creation")),
    )
    prompt = usage.get("prompt_tokens")
    if prompt is None:
        prompt = usage.get("input_tokens")
        # Anthropic's count excludes cached tokens; formats with details or a total include them.
        if prompt is not None and not details and is_count(prompt):
            prompt += cached + written
    completion = _given(usage.get("completion_tokens"), usage.get("output_tokens"))
    if completion is None and usage.get("total_tokens") == usage.get("prompt_tokens"):
        completion = 0  # embeddings have none
    return checked(prompt, completion, cached, written)


class Parts(NamedTuple):
    """What a usage says besides its counts; parts are at most the count that includes them."""

    reasoning: int = 0
    audio_prompt: int = 0
    image_prompt: int = 0
    audio_completion: int = 0
    image_completion: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0


def find_parts(usage: Any, counts: Counts) -> tuple[Counts, Parts]:
    """Return the parts of a usage, and its counts with reasoning that was counted apart.

    xAI's completion tokens exclude reasoning, which the total says.
    """
    if not isinstance(usage, dict):
        return counts, Parts()
    prompt = _inner(usage, "prompt_tokens_details", "input_tokens_details")
    answer = _inner(usage, "completion_tokens_details", "output_tokens_details")
    reasoning = _first(answer.get("reasoning_tokens"), answer.get("thinking_tokens"))
    total = usage.get("total_tokens")
    whole = counts.prompt + counts.completion + reasoning
    if reasoning and (reasoning > counts.completion if total is None else total == whole):
        counts = counts._replace(completion=counts.completion + reasoning)
    lifetimes = _inner(usage, "cache_creation")
    given = Parts(
        reasoning=reasoning,
        audio_prompt=_first(prompt.get("audio_tokens")),
        image_prompt=_first(prompt.get("image_tokens")),
        audio_completion=_first(answer.get("audio_tokens")),
        image_completion=_first(answer.get("image_tokens")),
        cache_write_1h=_first(lifetimes.get("ephemeral_1h_input_tokens")),
        web_searches=_first(_inner(usage, "server_tool_use").get("web_search_requests")),
    )
    return counts, fit_parts(given, counts)


def fit_parts(parts: Parts, counts: Counts) -> Parts:
    """Return the parts without values that are no counts, each at most what its total leaves."""
    given = Parts(*(part if is_count(part) else 0 for part in parts))
    audio = min(given.audio_prompt, counts.prompt)
    spoken = min(given.audio_completion, counts.completion)
    return given._replace(
        reasoning=min(given.reasoning, counts.completion),
        audio_prompt=audio,
        image_prompt=min(given.image_prompt, counts.prompt - audio),
        audio_completion=spoken,
        image_completion=min(given.image_completion, counts.completion - spoken),
        cache_write_1h=min(given.cache_write_1h, counts.cache_write),
    )


def _inner(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((usage[name] for name in names if isinstance(usage.get(name), dict)), {})


def sum_counts(usage: Any) -> Counts | None:
    """Return the counts of Langfuse's usage, whose members count different tokens.

    Every key with `input` in it is part of the prompt, and every key with `output` is part of the
    answer. If the parts exceed the total, a cached part was counted twice.
    """
    if not isinstance(usage, dict):
        return None
    given = {key: value for key, value in usage.items() if is_count(value)}
    inputs = {key: value for key, value in given.items() if "input" in key}
    outputs = {key: value for key, value in given.items() if "output" in key}
    if not inputs:
        prompt = _given(given.get("promptTokens"), given.get("prompt_tokens"))
        inputs = {} if prompt is None else {"input": prompt}
    if not outputs:
        completion = _given(given.get("completionTokens"), given.get("completion_tokens"))
        outputs = {} if completion is None else {"output": completion}
    if not inputs:
        return None
    prompt, completion = sum(inputs.values()), sum(outputs.values())
    total = given.get("total") or 0
    if 0 < total < prompt + completion:
        prompt, completion = inputs.get("input", prompt), outputs.get("output", completion)
    caches = {key: value for key, value in inputs.items() if "cache" in key}
    written = sum(v for k, v in caches.items() if "creation" in k or "write" in k)
    return checked(prompt, completion, sum(caches.values()) - written, written)


def checked(prompt: Any, completion: Any, cached: Any = 0, written: Any = 0) -> Counts | None:
    """Return the counts if all are valid."""
    counts = (prompt, completion, cached or 0, written or 0)
    return Counts(*counts) if all(map(is_count, counts)) else None


def with_cache(
    prompt: Any, completion: Any, cached: Any, written: Any, *, is_within: bool | None
) -> Counts | None:
    """Return counts whose prompt includes the cached part; `is_within` if it already does.

    Where nobody knows, a cached part larger than the prompt cannot be within it.
    """
    counts = checked(prompt, completion, cached, written)
    if counts is None:
        return None
    beside = counts.cached + counts.cache_write
    if is_within is None:
        is_within = beside <= counts.prompt
    return counts if is_within else checked(counts.prompt + beside, *counts[1:])


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _given(first: Any, second: Any) -> Any:
    return second if first is None else first


def _first(*counts: Any) -> int:
    """Return the first count above zero."""
    return next((count for count in counts if is_count(count) and count), 0)


def _sum_of_lifetimes(split: Any) -> int:
    if not isinstance(split, dict):
        return 0
    return sum(count for count in split.values() if is_count(count))
