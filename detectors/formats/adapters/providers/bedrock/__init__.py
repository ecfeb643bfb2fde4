"""Amazon Bedrock: model invocation logs, from S3 or from CloudWatch Logs.

Fields: https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html; the
counts as in https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html.
`inputTokenCount` excludes tokens read from the cache and written to it. Exports of CloudWatch Logs
have the log in `@message` or `message`.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import FAILED, NO_USAGE, Sighting
from detectors.formats.adapters.exchanges import caps_of
from detectors.formats.adapters.labels import last_name
from detectors.formats.adapters.rows import Row
from detectors.formats.adapters.usage import find_parts, with_cache

_MESSAGES: Final = ("@message", "message")
_KIND: Final = "schemaType"


def _recognizes(row: Row) -> bool:
    if _KIND in row:
        return True
    if "@message" in row and not row.has("@message"):
        return True  # the header of a CSV
    return any(row.mentions(name, _KIND) for name in _MESSAGES)


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    found = next((row.inner(name) for name in _MESSAGES if _KIND in row.inner(name)), row)
    asked, answered = found.inner("input"), found.inner("output")
    counts = with_cache(
        asked.get("inputTokenCount"),
        answered.get("outputTokenCount") or 0,
        asked.get("cacheReadInputTokenCount"),
        asked.get("cacheWriteInputTokenCount"),
        is_within=False,
    )
    if found.has("errorCode"):
        yield FAILED
    elif counts is None:
        yield NO_USAGE
    else:
        body, reply = asked.inner("inputBodyJson"), answered.inner("outputBodyJson")
        notes = found.inner("requestMetadata")
        yield Sighting(
            counts=counts,
            parts=find_parts(reply.get("usage"), counts)[1],
            moments=(found.get("timestamp"), row.get("@timestamp"), row.get("timestamp")),
            models=(last_name(found.get("modelId")),),
            providers=("bedrock",),
            ids=(found.get("requestId"),),
            tags=(notes.get("tag"), row.get("tag"), notes.get("team")),
            environment=notes.get("environment"),
            endpoint=found.get("operation"),
            region=found.get("inferenceRegion") or found.get("region"),
            latency_ms=reply.inner("metrics").get("latencyMs"),
            caps=(*caps_of(body), *caps_of(body.inner("inferenceConfig"))),
            prompts=(body.get("system"), body.get("messages"), body.get("prompt")),
        )


_LOG: Final = (
    "schemaType schemaVersion timestamp accountId identity(arn) region inferenceRegion requestId "
    "operation modelId status errorCode performanceConfig(latency) requestMetadata* "
    "input(inputContentType inputTokenCount cacheReadInputTokenCount cacheWriteInputTokenCount "
    "inputBodyJson(max_tokens anthropic_version inferenceConfig(maxTokens))) "
    "output(outputContentType outputTokenCount "
    "outputBodyJson(stopReason stop_reason metrics(latencyMs) usage*))"
)

ADAPTER: Final = Adapter(
    title="Bedrock invocation logs",
    signs=(_KIND, *_MESSAGES),
    recognizes=_recognizes,
    read=_read,
    allowed=members(
        f"{_LOG} tag @timestamp @ptr @logStream @log logStreamName ingestionTime eventId id "
        f"@message({_LOG}) message({_LOG})"
    ),
)
