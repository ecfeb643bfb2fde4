"""Read the counts of the usual usage objects in the fewest steps, before the reader of `usage`.

A shortcut takes only objects in which nothing is unusual: of a library's own class, with no member
without a name here, without audio, images, hosted tools or steps. Every other object is the
reader's, and a test compares what both make of the same.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Callable, Optional

from tallystick.reading.usage.reader import MAX_COUNT

_of_completion = itemgetter(
    *("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
)
_of_response = itemgetter(
    *("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details")
)
_of_message = itemgetter(
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
)
# How a usage is read by its endpoint, as OpenAI's own classes have it.
_OPENAI: dict[str | None, Callable[[Any], tuple[Any, ...]]] = {
    "chat/completions": _of_completion,
    "completions": _of_completion,
    "responses": _of_response,
}
_COUNTS = frozenset(
    (int, int, cached, write) for cached in (int, type(None)) for write in (int, type(None))
)
# The members of classes that are read here, and those that make an object unusual if they are set.
_KNOWN = frozenset(
    (
        *("prompt_tokens", "completion_tokens", "prompt_tokens_details"),
        *("completion_tokens_details", "input_tokens", "output_tokens", "input_tokens_details"),
        *("output_tokens_details", "total_tokens", "cached_tokens", "cache_write_tokens"),
        *("reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"),
        *("text_tokens", "audio_tokens", "image_tokens", "cache_write_tokens_details"),
        *("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"),
        *("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens", "thinking_tokens"),
        *("service_tier", "inference_geo", "speed", "server_tool_use", "iterations"),
        "fallback_credit",
    )
)
_USUAL_TIERS = (None, "standard")
_NOTHING: dict[str, Any] = {}
# Classes, and whether all their members are known.
_classes: dict[type, bool] = {}
_known = _classes.get
_REMEMBERED = 256

# Of the prompt, of the completion, read from a cache, written to one, of reasoning, and written to
# be kept for an hour. A bare tuple, since one is made in every call.
Counts = tuple[int, int, Optional[int], Optional[int], Optional[int], Optional[int]]


def usual_usage(usage: Any, endpoint: str | None) -> Counts | None:
    """Return the counts of an object of OpenAI's own classes; None for an unusual one."""
    read = _OPENAI.get(endpoint)
    if read is None:
        return None
    try:
        members = usage.__dict__
        prompt, completion, asked, answered = read(members)
        if usage.__pydantic_extra__ or not (_known(type(usage)) or _is_known(usage, members)):
            return None
        asked = _NOTHING if asked is None else _plain(asked)
        answered = _NOTHING if answered is None else _plain(answered)
    except (AttributeError, KeyError, TypeError):  # not of OpenAI's own classes
        return None
    if asked is None or answered is None:
        return None
    cached, write = asked.get("cached_tokens"), asked.get("cache_write_tokens")
    reasoning = answered.get("reasoning_tokens")
    if not _are_counts(prompt, completion, cached, write) or (cached or 0) + (write or 0) > prompt:
        return None
    if reasoning:
        is_count = type(reasoning) is int and 0 <= reasoning <= completion
        if not is_count or members.get("total_tokens") != prompt + completion:
            return None  # the answer may not include its reasoning
    return prompt, completion, cached, write, reasoning, None


def usual_message(usage: Any) -> Counts | None:
    """Return the counts of an object of Anthropic's own class, or of the members of two of them.

    Returns None for an unusual one.
    """
    try:
        if type(usage) is dict:
            members, is_known = usage, _KNOWN.issuperset(usage)
        else:
            members, is_known = usage.__dict__, not usage.__pydantic_extra__
            is_known = is_known and (_known(type(usage)) or _is_known(usage, members))
        if not is_known:
            return None
        fresh, completion, read, write = _of_message(members)
        get = members.get
        lifetimes, details = get("cache_creation"), get("output_tokens_details")
        lifetimes = _NOTHING if lifetimes is None else _plain(lifetimes)
        details = _NOTHING if details is None else _plain(details)
    except (AttributeError, KeyError, TypeError):
        return None
    if lifetimes is None or details is None:
        return None
    if get("server_tool_use") or get("iterations") or get("inference_geo"):
        return None
    if get("service_tier") not in _USUAL_TIERS or get("speed") not in _USUAL_TIERS:
        return None
    hour, thinking = lifetimes.get("ephemeral_1h_input_tokens"), details.get("thinking_tokens")
    if not _are_counts(fresh, completion, read, write):
        return None
    if lifetimes:  # the writes are no fewer than those of their lifetimes
        short = lifetimes.get("ephemeral_5m_input_tokens")
        if type(hour) is not int or type(short) is not int or hour < 0 or short < 0:
            return None
        if hour + short > (write or 0):
            return None
    if thinking and not (type(thinking) is int and 0 <= thinking <= completion):
        return None
    return fresh + (read or 0) + (write or 0), completion, read, write, thinking, hour


def _plain(holder: Any) -> dict[str, Any] | None:
    """Return the members of details in which nothing is unusual; None for others."""
    members: dict[str, Any] = holder.__dict__
    if holder.__pydantic_extra__ or not (_known(type(holder)) or _is_known(holder, members)):
        return None
    get = members.get
    is_odd = get("audio_tokens") or get("image_tokens") or get("cache_write_tokens_details")
    return None if is_odd else members


def _is_known(holder: Any, members: dict[str, Any]) -> bool:
    kind = type(holder)
    known = _classes.get(kind)
    if known is None:
        if len(_classes) >= _REMEMBERED:
            _classes.clear()
        known = _classes[kind] = _KNOWN.issuperset(members)
    return known


def _are_counts(prompt: Any, completion: Any, cached: Any, write: Any) -> bool:
    if (type(prompt), type(completion), type(cached), type(write)) not in _COUNTS:
        return False
    if not (0 <= prompt <= MAX_COUNT and 0 <= completion <= MAX_COUNT):
        return False
    return (cached or 0) >= 0 and (write or 0) >= 0
