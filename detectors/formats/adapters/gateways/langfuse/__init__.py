"""Langfuse: observations, from its exports (JSON, CSV) or its API.

Fields: https://langfuse.com/docs/observability/features/token-and-cost-tracking (`usage_details`),
https://langfuse.com/docs/api-and-data-platform/features/export-from-ui (`usage`) and
https://api.reference.langfuse.com (`Observation`). Keys of `usageDetails` count different
tokens, but some exporters put the cached part into `input` too: then the parts exceed `total`.
Without a total they are added, as Langfuse documents them.
"""

from collections.abc import Iterator
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, Sums, any_of, members
from detectors.formats.adapters.calls import (
    CACHE_HIT,
    ROW,
    Sighting,
    TraceSpan,
    milliseconds_between,
)
from detectors.formats.adapters.exchanges import PROMPTS, caps_of
from detectors.formats.adapters.labels import answer_id, id_of
from detectors.formats.adapters.rows import Row, parsed, plain_counts
from detectors.formats.json_logs.usage.reader import count_of, read_usage

_DETAILS: Final = ("usageDetails", "usage_details")
_COPIED: Final = frozenset(("cache_read_input_tokens", "cache_creation_input_tokens"))
_CALLS: Final = ("GENERATION", "EMBEDDING", None)
_TRUE: Final = (True, "true", "True")
_COUNTED: Final = (*_DETAILS, "promptTokens")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if row.inner("metadata").get("cache_hit") in _TRUE:  # as LiteLLM sends it
        yield CACHE_HIT
        return
    options = row.inner("modelParameters")
    begun, ended = row.first("startTime", "start_time"), row.first("endTime", "end_time")
    usage = parsed(row.first(*_DETAILS)) or parsed(row.get("usage"))
    costs = parsed(row.first("costDetails", "cost_details"))
    # Frameworks count calls in what is around them, too:
    # https://github.com/langfuse/langfuse/issues/14754
    name, trace = id_of(row.get("id")), id_of(row.first("traceId", "trace_id"))
    parent = id_of(row.first("parentObservationId", "parent_observation_id"))
    span = TraceSpan(f"{trace}:{name}", f"{trace}:{parent}", row.get("type") in _CALLS)
    # Messages, an object with them, or either as JSON text.
    prompts: tuple[Any, ...] = (parsed(row.get("input")),)
    if isinstance(prompts[0], dict) and not isinstance(prompts[0].get("content"), str | list):
        prompts = tuple(map(prompts[0].get, PROMPTS))
    yield Sighting(
        readings=read_usage(usage, dialect=dialect_of_details(usage), may_lack_output=True)
        or plain_counts(row.get("promptTokens"), row.get("completionTokens") or 0),
        moments=(begun,),
        models=(row.get("model"), row.get("providedModelName")),
        providers=(row.get("provider"),),
        origin=ROW,
        ids=(answer_id(row.get("id")), row.get("id")),
        tags=(row.get("tag"), row.get("name")),
        environment=row.get("environment"),
        session=row.first("sessionId", "session_id"),
        reported_usd=costs.get("total") if isinstance(costs, dict) else row.get("totalPrice"),
        latency_ms=milliseconds_between(begun, ended),
        caps=caps_of(options),
        prompts=prompts,
        service_tier=options.get("service_tier"),
        span=None if name is None else span,
    )


def dialect_of_details(usage: Any) -> str:
    """Return how a usage counts: exporters that copy names don't say whether `input` has the cache.

    As Langfuse documents it, it has not. But hardly any call has about as many tokens beside the
    cache as in it, so a cache of half of the input or more is taken to be within it.
    """
    if not isinstance(usage, dict) or _COPIED.isdisjoint(usage):
        return "langfuse"
    cache = sum(count_of(usage.get(name)) or 0 for name in _COPIED)
    whole = count_of(usage.get("input")) or 0
    return "langfuse-copied" if whole < 2 * cache else "langfuse"


ADAPTER: Final = Adapter(
    title="Langfuse observations",
    signs=(*_COUNTED, "traceId"),
    recognizes=lambda row: (
        any(name in row for name in _DETAILS)
        or ("promptTokens" in row and ("startTime" in row or "start_time" in row))
        or ("usage" in row and "startTime" in row)
    ),
    read=_read,
    allowed=members(
        "id traceId trace_id type name startTime start_time endTime end_time completionStartTime "
        "completion_start_time model providedModelName modelId internalModelId provider version "
        "release environment level parentObservationId parent_observation_id sessionId session_id "
        "userId user_id projectId project_id createdAt updatedAt promptId promptName promptVersion "
        "tag tags latency timeToFirstToken unit bookmarked traceName inputPrice "
        "outputPrice totalPrice "
        "modelParameters(max_tokens max_completion_tokens max_output_tokens maxTokens temperature "
        "top_p service_tier) usage* usageDetails* usage_details* costDetails* cost_details* "
        "usagePricingTierId usagePricingTierName"
    ),
    sums=Sums(
        what="Langfuse's daily metrics",
        signs=any_of("countObservations date"),
        instead="export the observations (generations) instead",
    ),
)
