"""Gemini and Vertex AI: responses with `usageMetadata`, batch outputs, request-response logs.

Fields: https://ai.google.dev/api/generate-content#UsageMetadata and
https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse.
`promptTokenCount` includes `cachedContentTokenCount`; tokens of tool results are apart and are
input too. The answer is `candidatesTokenCount` and `thoughtsTokenCount` together. A stream repeats
the counts so far with the same `responseId`. LangChain's messages of any provider have a
`usage_metadata`, too, and say their model in `response_metadata`.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import MESSAGE, NO_USAGE, Sighting
from detectors.formats.adapters.labels import answer_id, last_name
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import dialect_of, read_usage

_NAMES: Final = ("usageMetadata", "usage_metadata")
_GROUNDING: Final = ("groundingMetadata", "grounding_metadata")
_ANSWERS: Final = ("response", "full_response", "response_payload")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    named = next((answer for answer in _ANSWERS if row.mentions(answer, *_NAMES)), "")
    answer = row.inner(named) if named else row
    usage = answer.first(*_NAMES)
    if usage is None:
        yield NO_USAGE
        return
    is_batch = bool(named) and ("processed_time" in row or "key" in row)
    asked = row.inner("request") if row.has("request") else row.inner("full_request")
    name = answer.first("responseId", "response_id")
    about = answer.inner("response_metadata")
    named_models = (
        answer.first("modelVersion", "model_version", "model"),
        about.first("model_name", "model"),
        row.get("model"),
        asked.get("model"),
    )
    is_google = not isinstance(usage, dict) or dialect_of(usage) == "gemini"
    models = tuple(map(last_name, filter(None, named_models))) or (None,)
    system = asked.first("systemInstruction", "system_instruction")
    contents = asked.get("contents")
    turns = contents if isinstance(contents, list) else []
    # The parts of an answer that say what was searched, without its text.
    candidates = [item.plain(_GROUNDING) for item in answer.items("candidates")]
    yield Sighting(
        readings=read_usage(usage, model=models[0], beside={"candidates": candidates}),
        moments=(row.get("ts"), answer.first("createTime", "create_time"), row.get("createTime"),
                 row.get("logging_time"), row.get("processed_time"), row.get("timestamp"),
                 row.get("created")),
        models=models,
        providers=(row.get("provider"), "google" if is_google else about.get("model_provider")),
        ids=(name, row.get("request_id"), answer_id(about.get("id"))),
        tags=(row.get("tag"),),
        endpoint=row.get("endpoint"),
        environment=row.get("environment"),
        session=row.get("session_id"),
        latency_ms=row.get("latency_ms"),
        caps=(row.get("declared_max_tokens"),
              asked.inner("generationConfig").get("maxOutputTokens")),
        prompts=tuple(turn.get("parts") for turn in (system, *turns) if isinstance(turn, dict)),
        prefix_hash=row.get("prefix_hash"),
        service_tier="batch" if is_batch else None,
        origin=MESSAGE if isinstance(name, str) and name else None,
    )  # fmt: skip


_USAGE: Final = "usageMetadata* usage_metadata*"
_ANSWER: Final = (
    f"{_USAGE} modelVersion model_version responseId response_id createTime create_time"
)

ADAPTER: Final = Adapter(
    title="Gemini responses",
    signs=(*_NAMES, *_ANSWERS),
    recognizes=lambda row: (
        any(name in row for name in _NAMES)
        or any(row.mentions(answer, *_NAMES) for answer in _ANSWERS)
    ),
    read=_read,
    allowed=members(
        f"{_ANSWER} ts timestamp created logging_time processed_time key status model provider "
        "endpoint deployed_model_id request_id api_method tag environment session_id prefix_hash "
        f"latency_ms declared_max_tokens response({_ANSWER}) full_response({_ANSWER}) "
        f"response_payload({_ANSWER}) request(model generationConfig(maxOutputTokens)) "
        "full_request(model generationConfig(maxOutputTokens))"
    ),
)
