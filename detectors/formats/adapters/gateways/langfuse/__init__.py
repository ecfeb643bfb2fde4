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
from detectors.formats.adapters.calls import Sighting, milliseconds_between
from detectors.formats.adapters.exchanges import PROMPTS, caps_of
from detectors.formats.adapters.labels import answer_id
from detectors.formats.adapters.rows import Row, parsed
from detectors.formats.adapters.usage import Counts, Parts, checked, is_count, sum_counts

_DETAILS: Final = ("usageDetails", "usage_details")
_COUNTED: Final = (*_DETAILS, "promptTokens")


def _recognizes(row: Row) -> bool:
    return any(name in row for name in _COUNTED) or ("usage" in row and "startTime" in row)


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    options = row.inner("modelParameters")
    plain = checked(row.get("promptTokens"), row.get("completionTokens") or 0)
    begun, ended = row.first("startTime", "start_time"), row.first("endTime", "end_time")
    usage = parsed(row.first(*_DETAILS)) or parsed(row.get("usage"))
    counts = sum_counts(usage)
    yield Sighting(
        counts=counts or plain,
        is_assumed=counts is not None and _is_assumed(usage, counts),
        parts=_parts(usage),
        moments=(begun,),
        models=(row.get("model"), row.get("providedModelName")),
        providers=(row.get("provider"),),
        ids=(answer_id(row.get("id")), row.get("id")),
        tags=(row.get("tag"), row.get("name")),
        environment=row.get("environment"),
        session=row.first("sessionId", "session_id"),
        latency_ms=milliseconds_between(begun, ended),
        caps=caps_of(options),
        prompts=_prompts(row.get("input")),
        service_tier=options.get("service_tier"),
    )


def _is_assumed(usage: dict[str, Any], counts: Counts) -> bool:
    """Check for a cached part that an exporter may have put into `input`, too.

    Without the exporter's total, Langfuse's is the sum of all parts, which says nothing.
    """
    cached = counts.cached + counts.cache_write
    given = usage.get("input", 0)
    return is_count(given) and 0 < cached <= given < counts.prompt


def _parts(usage: Any) -> Parts:
    """Return the parts of the answer and of the prompt that have keys of their own."""
    if not isinstance(usage, dict):
        return Parts()
    return Parts(
        reasoning=usage.get("output_reasoning_tokens", 0),
        audio_prompt=usage.get("input_audio_tokens", 0),
        audio_completion=usage.get("output_audio_tokens", 0),
    )


def _prompts(value: Any) -> tuple[Any, ...]:
    """Return the prompts of `input`: messages, an object with them, or either as JSON text."""
    value = parsed(value)
    if isinstance(value, dict) and not isinstance(value.get("content"), str | list):
        return tuple(map(value.get, PROMPTS))
    return (value,)


ADAPTER: Final = Adapter(
    title="Langfuse observations",
    signs=(*_COUNTED, "traceId"),
    recognizes=_recognizes,
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
