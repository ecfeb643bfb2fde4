"""What Gemini's answers say beside a usage that other answers have in it."""

from __future__ import annotations

from typing import Any

from tallystick.usage.reader import count_of, members_of

_TIER_HEADER = "x-gemini-service-tier"


def tier_in(headers: Any) -> object:
    """Return the tier that a header says."""
    return headers.get(_TIER_HEADER) if headers else None


def embedding_usage(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the usage of embeddings: of all together, or as Vertex AI says it of each."""
    usage = answer.get("usage_metadata", answer.get("usageMetadata"))
    if usage is not None:
        return members_of(usage)
    total = 0
    for embedding in answer.get("embeddings") or ():
        statistics = members_of(members_of(embedding).get("statistics"))
        count = count_of(statistics.get("token_count"))
        if count is None:
            return {}
        total += count
    return {"prompt_token_count": total} if total else {}
