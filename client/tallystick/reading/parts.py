"""Read what a usage says besides its totals: parts of them, searches, the tier and the region."""

from __future__ import annotations

from typing import Any

from tallystick.reading.usage import Counts, count_of, members_of

# Names and numbers, as a record has them; absent where nothing is said.
Parts = dict[str, Any]

_TIERS = frozenset(("batch", "flex", "priority", "fast"))
_ANYWHERE = frozenset(("global", "not_available"))
_OF_PROMPT = (("audio_prompt_tokens", "audio_tokens"), ("image_prompt_tokens", "image_tokens"))
_OF_COMPLETION = (
    ("reasoning_tokens", "reasoning_tokens"),
    ("audio_completion_tokens", "audio_tokens"),
    ("image_completion_tokens", "image_tokens"),
)
_OF_ANTHROPIC = (
    ("cache_creation", (("cache_write_1h_tokens", "ephemeral_1h_input_tokens"),)),
    ("output_tokens_details", (("reasoning_tokens", "thinking_tokens"),)),
    ("server_tool_use", (("web_searches", "web_search_requests"),)),
)


def openai_parts(counts: Counts, usage: Any, tier: object) -> tuple[Counts, Parts]:
    """Return the parts of an OpenAI-style usage, and its counts as OpenAI would count them.

    DeepSeek has a name of its own for cached tokens. xAI counts reasoning apart from the answer,
    which its total says.
    """
    members = members_of(usage)
    parts = tier_parts(tier)
    prompt = members.get("prompt_tokens_details") or members.get("input_tokens_details")
    if prompt is not None:
        _add(parts, _OF_PROMPT, members_of(prompt))
    answer = members.get("completion_tokens_details") or members.get("output_tokens_details")
    if answer is not None:
        _add(parts, _OF_COMPLETION, members_of(answer))
    total_prompt, completion, cached, write = counts
    reasoning = parts.get("reasoning_tokens", 0)
    if reasoning and _is_apart(reasoning, members.get("total_tokens"), total_prompt, completion):
        completion += reasoning
    if not cached:
        hits = members.get("prompt_cache_hit_tokens")
        if hits:
            cached = count_of(hits) or cached
    return (total_prompt, completion, cached, write), parts


def _is_apart(reasoning: int, total: object, prompt: int, completion: int) -> bool:
    """Check whether the completion leaves the reasoning out."""
    whole = count_of(total)
    return reasoning > completion if whole is None else whole == prompt + completion + reasoning


def tier_parts(tier: object) -> Parts:
    return {"service_tier": tier} if isinstance(tier, str) and tier in _TIERS else {}


def anthropic_parts(parts: Parts, usage: Any) -> None:
    """Update the parts with those of a usage: later values of a stream replace earlier ones."""
    members = members_of(usage)
    for holder, names in _OF_ANTHROPIC:
        inner = members.get(holder)
        if inner is not None:
            _add(parts, names, members_of(inner))
    tier, region = members.get("service_tier"), members.get("inference_geo")
    if members.get("speed") == "fast":
        tier = "fast"
    if isinstance(tier, str) and tier in _TIERS:
        parts["service_tier"] = tier
    if isinstance(region, str) and region not in _ANYWHERE:
        parts["region"] = region


def _add(parts: Parts, names: tuple[tuple[str, str], ...], members: dict[str, Any]) -> None:
    for ours, theirs in names:
        value = members.get(theirs)
        if value:  # most are zero or absent
            count = count_of(value)
            if count:
                parts[ours] = count
