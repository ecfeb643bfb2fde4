"""Read a call's counts from Gemini's usage: as its library has it, or as JSON.

The prompt's count includes what was read from a cache. Tokens of tools' results are apart and are
input, too; the answer is the candidates and the thoughts together.
"""

from __future__ import annotations

from typing import Any

from tallystick.reading.parts import Parts, tier_parts
from tallystick.reading.usage import Counts, count_of, members_of

_TIERS = {"ON_DEMAND_FLEX": "flex", "ON_DEMAND_PRIORITY": "priority"}
_TIER_HEADER = "x-gemini-service-tier"
_OF_PROMPT = (("AUDIO", "audio_prompt_tokens"), ("IMAGE", "image_prompt_tokens"))
_OF_ANSWER = (("AUDIO", "audio_completion_tokens"), ("IMAGE", "image_completion_tokens"))


def gemini_counts(usage: Any) -> Counts | None:
    """Return the counts of an answer; None if there is no count of the prompt."""
    members = members_of(usage)
    prompt = _count(members, "prompt_token_count", "promptTokenCount")
    if prompt is None:
        return None
    prompt += _count(members, "tool_use_prompt_token_count", "toolUsePromptTokenCount") or 0
    answer = _count(members, "candidates_token_count", "candidatesTokenCount") or 0
    answer += _thoughts(members) or 0
    total = _count(members, "total_token_count", "totalTokenCount")
    if total and "thoughts_token_count" not in members:
        answer = max(answer, total - prompt)  # older libraries drop the thoughts
    return (
        prompt,
        answer,
        _count(members, "cached_content_token_count", "cachedContentTokenCount"),
        None,
    )


def gemini_parts(usage: Any, headers: Any) -> Parts:
    """Return the parts of the counts, and the tier that the usage or a header says."""
    members = members_of(usage)
    traffic = members.get("traffic_type", members.get("trafficType"))
    tier: Any = _TIERS.get(str(getattr(traffic, "value", traffic)))
    if tier is None and headers:
        tier = headers.get(_TIER_HEADER)
    parts = tier_parts(tier)
    thoughts = _thoughts(members)
    if thoughts:
        parts["reasoning_tokens"] = thoughts
    prompt = members.get("prompt_tokens_details", members.get("promptTokensDetails"))
    answer = members.get("candidates_tokens_details", members.get("candidatesTokensDetails"))
    if prompt:
        _add(parts, prompt, _OF_PROMPT)
    if answer:
        _add(parts, answer, _OF_ANSWER)
    return parts


def embedding_counts(answer: dict[str, Any]) -> Counts | None:
    """Return the counts of embeddings: of all together, or as Vertex AI says them of each."""
    usage = answer.get("usage_metadata")
    if usage is not None:
        prompt = _count(members_of(usage), "prompt_token_count", "promptTokenCount")
        return None if prompt is None else (prompt, 0, None, None)
    total = 0
    for embedding in answer.get("embeddings") or ():
        statistics = members_of(members_of(embedding).get("statistics"))
        count = count_of(statistics.get("token_count"))
        if count is None:
            return None
        total += count
    return (total, 0, None, None) if total else None


def interaction_counts(usage: Any) -> Counts | None:
    """Return the counts of the Interactions API, which has other names for the same."""
    members = members_of(usage)
    prompt = count_of(members.get("total_input_tokens"))
    if prompt is None:
        return None
    prompt += count_of(members.get("total_tool_use_tokens")) or 0
    answer = count_of(members.get("total_output_tokens")) or 0
    answer += count_of(members.get("total_thought_tokens")) or 0
    return prompt, answer, count_of(members.get("total_cached_tokens")), None


def interaction_parts(usage: Any, tier: object) -> Parts:
    parts = tier_parts(tier)
    thoughts = count_of(members_of(usage).get("total_thought_tokens"))
    if thoughts:
        parts["reasoning_tokens"] = thoughts
    return parts


def _thoughts(members: dict[str, Any]) -> int | None:
    return _count(members, "thoughts_token_count", "thoughtsTokenCount")


def _count(members: dict[str, Any], name: str, in_json: str) -> int | None:
    value = members.get(name)
    return count_of(members.get(in_json) if value is None else value)


def _add(parts: Parts, details: Any, names: tuple[tuple[str, str], ...]) -> None:
    """Add the counts of each modality."""
    for detail in details:
        members = members_of(detail)
        modality = members.get("modality")
        modality = getattr(modality, "value", modality)
        for theirs, ours in names:
            count = _count(members, "token_count", "tokenCount")
            if modality == theirs and count:
                parts[ours] = count
