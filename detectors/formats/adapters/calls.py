"""A call of someone else's log, the same shape for every source.

Written, it is an OpenAI-style flat line with the record's own labels, which every other part of the
project reads. It contains only checked values: counts, a time, and names that `labels` accepts.
"""

from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from detectors.contract import MAX_LATENCY_MS, STATUSES, StoredRecord
from detectors.formats.adapters.labels import (
    find_hash,
    find_model,
    find_provider,
    find_tag,
    id_of,
    provider_of,
)
from detectors.formats.adapters.prompts import hash_texts
from detectors.formats.adapters.usage import Counts, Parts, find_parts, fit_parts, is_count
from detectors.formats.fields import SERVICE_TIERS
from detectors.formats.moments import read_moment

_TIERS: Final = frozenset(SERVICE_TIERS)


class PromptDetails(Struct, omit_defaults=True, gc=False):
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class AnswerDetails(Struct, omit_defaults=True, gc=False):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class Usage(Struct, omit_defaults=True, gc=False):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: AnswerDetails | None = None


class Call(Struct, omit_defaults=True, gc=False):
    ts: datetime
    provider: str
    model: str
    usage: Usage
    endpoint: str | None = None
    request_id: str | None = None
    tag: str | None = None
    latency_ms: float | None = None
    declared_max_tokens: int | None = None
    prefix_hash: str | None = None
    service_tier: str | None = None
    cache_write_1h_tokens: int = 0
    web_searches: int = 0
    environment: str | None = None
    session_id: str | None = None
    region: str | None = None
    status: str | None = None
    input_assumed: Literal[1] | None = None


class Sighting(Struct, kw_only=True, gc=False):
    """Unchecked values of a call from a raw log; texts are only hashed."""

    counts: Counts | None
    moments: tuple[Any, ...]
    models: tuple[Any, ...]
    providers: tuple[Any, ...]
    ids: tuple[Any, ...]
    tags: tuple[Any, ...] = ()
    endpoint: Any = None
    latency_ms: Any = None
    caps: tuple[Any, ...] = ()
    prompts: tuple[Any, ...] = ()
    prefix_hash: Any = None
    service_tier: Any = None
    usage: Any = None
    parts: Parts | None = None  # or else those of `usage`
    environment: Any = None
    session: Any = None
    region: Any = None
    status: Any = None
    is_assumed: bool = False  # whether the prompt includes the cached tokens
    is_snapshot: bool = False  # if true, the message's own ID is the first of `ids`


NO_USAGE: Final = "without token counts: questions, errors, notes"
NO_TIME: Final = "without a time from 2000 to 2100"
NO_MODEL: Final = "without a model name"
CACHE_HIT: Final = "answered from a gateway's cache, so not billed"
FAILED: Final = "failed, so not billed"


def call_of(seen: Sighting) -> Call | str:
    """Return the call, or the reason why there is none."""
    if seen.counts is None:
        return NO_USAGE
    model = _first(find_model, seen.models)
    if model is None:
        return NO_MODEL
    moment = _first(find_moment, seen.moments)
    if moment is None:
        return NO_TIME
    tier = seen.service_tier
    counts, parts = (
        find_parts(seen.usage, seen.counts)
        if seen.parts is None
        else (seen.counts, fit_parts(seen.parts, seen.counts))
    )
    return Call(
        ts=moment,
        provider=_first(find_provider, seen.providers) or provider_of(model),
        model=model,
        usage=_usage_of(counts, parts),
        endpoint=find_tag(seen.endpoint),
        request_id=_first(id_of, seen.ids),
        tag=_first(find_tag, seen.tags),
        latency_ms=_find_latency(seen.latency_ms),
        declared_max_tokens=next((cap for cap in seen.caps if is_count(cap) and cap), None),
        prefix_hash=find_hash(seen.prefix_hash) or hash_texts(*seen.prompts),
        service_tier=tier if isinstance(tier, str) and tier in _TIERS else None,
        cache_write_1h_tokens=parts.cache_write_1h,
        web_searches=parts.web_searches,
        environment=find_tag(seen.environment),
        session_id=id_of(seen.session),
        region=find_provider(seen.region) or _find_region(seen.usage),
        status=seen.status if seen.status in STATUSES else None,
        input_assumed=1 if seen.is_assumed else None,
    )


def record_of(call: Call) -> StoredRecord:
    """Return the call as a record."""
    asked = call.usage.prompt_tokens_details or PromptDetails()
    answered = call.usage.completion_tokens_details or AnswerDetails()
    labels = {name: getattr(call, name) for name in _LABELS}
    return StoredRecord(
        prompt_tokens=call.usage.prompt_tokens,
        completion_tokens=call.usage.completion_tokens,
        cached_tokens=asked.cached_tokens,
        cache_write_tokens=asked.cache_write_tokens,
        audio_prompt_tokens=asked.audio_tokens,
        image_prompt_tokens=asked.image_tokens,
        reasoning_tokens=answered.reasoning_tokens,
        audio_completion_tokens=answered.audio_tokens,
        image_completion_tokens=answered.image_tokens,
        **labels,
    )


_LABELS: Final = tuple(name for name in Call.__struct_fields__ if name != "usage")


def _usage_of(counts: Counts, parts: Parts) -> Usage:
    prompt, completion, cached, written = counts
    asked = PromptDetails(cached, written, parts.audio_prompt, parts.image_prompt)
    answered = AnswerDetails(parts.reasoning, parts.audio_completion, parts.image_completion)
    return Usage(
        prompt,
        completion,
        asked if asked != PromptDetails() else None,
        answered if answered != AnswerDetails() else None,
    )


def _find_region(usage: Any) -> str | None:
    region = find_provider(usage.get("inference_geo")) if isinstance(usage, dict) else None
    return None if region in ("global", "not_available") else region


def find_moment(value: Any) -> datetime | None:
    """Parse a time as logs write it; None for anything else."""
    try:
        return read_moment(value)
    except (ValueError, OverflowError):
        return None


def milliseconds_between(start: Any, end: Any) -> float | None:
    """Return the time between start and end; None if either is missing or out of order."""
    begun, ended = find_moment(start), find_moment(end)
    if begun is None or ended is None or ended < begun:
        return None
    return round((ended - begun).total_seconds() * 1_000, 3)


def _find_latency(value: Any) -> float | None:
    is_number = type(value) in (int, float)
    return float(value) if is_number and 0 <= value <= MAX_LATENCY_MS else None


def _first(find: Any, values: tuple[Any, ...]) -> Any:
    for value in values:
        if value is not None and (found := find(value)) is not None:
            return found
    return None


encode_call: Final = msgspec.json.Encoder().encode
