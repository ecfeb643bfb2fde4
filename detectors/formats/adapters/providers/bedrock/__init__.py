"""Amazon Bedrock: model invocation logs, from S3 or from CloudWatch Logs.

Fields: https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html; the
counts as in https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html.
`inputTokenCount` excludes tokens read from the cache and written to it. Exports of CloudWatch Logs
have the log in `@message` or `message`. Lines of batch outputs, which are priced at the tier
`batch`, need a `ts`: https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference-results.html
"""

from collections.abc import Iterator
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import FAILED, NO_USAGE, ROW, Sighting
from detectors.formats.adapters.exchanges import caps_of, read_batch
from detectors.formats.adapters.labels import last_name
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage

_MESSAGES: Final = ("@message", "message")
_KIND: Final = "schemaType"
_BATCH: Final = "modelOutput"  # of a line of a batch output, which has no time of its own
_COUNTS: Final = frozenset(
    ("inputTokenCount", "outputTokenCount", "cacheReadInputTokenCount", "cacheWriteInputTokenCount")
)


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if _BATCH in row:
        for seen in read_batch(row, row.inner(_BATCH)):
            if isinstance(seen, Sighting):
                seen.providers = ("bedrock",)
            yield seen
        return
    found = next((row.inner(name) for name in _MESSAGES if _KIND in row.inner(name)), row)
    asked, answered = found.inner("input"), found.inner("output")
    counted = asked.plain(_COUNTS) | answered.plain(_COUNTS)
    readings = read_usage(counted, dialect="bedrock", may_lack_output=True)
    # The usage of a body; that of a stream is the usage of its events, the last first.
    body, usage = answered.inner("outputBodyJson"), dict[str, Any]()
    if body.has("usage"):
        usage = dict(body.inner("usage").plain())
    for event in () if body.has("usage") else answered.items("outputBodyJson"):
        for holder in (event.inner("message"), event, event.inner("metadata")):
            own = holder.inner("usage").plain()
            usage.update({name: value for name, value in own.items() if value is not None})
    said = read_usage(usage)
    if said and (
        not readings
        or (said[0].prompt >= readings[0].prompt and said[0].completion >= readings[0].completion)
    ):
        readings = said  # the body's counts tell more of the same
    if found.has("errorCode"):
        yield FAILED
    elif not readings:
        yield NO_USAGE
    else:
        body, reply = asked.inner("inputBodyJson"), answered.inner("outputBodyJson")
        notes = found.inner("requestMetadata")
        yield Sighting(
            readings=readings,
            moments=(found.get("timestamp"), row.get("@timestamp"), row.get("timestamp")),
            models=(last_name(found.get("modelId")),),
            providers=("bedrock",),
            origin=ROW,
            ids=(found.get("requestId"),),
            tags=(notes.get("tag"), row.get("tag"), notes.get("team")),
            environment=notes.get("environment"),
            endpoint=found.get("operation"),
            region=found.get("inferenceRegion") or found.get("region"),
            service_tier=_tier_of(reply) or _tier_of(found) or _tier_of(body),
            latency_ms=reply.inner("metrics").get("latencyMs"),
            caps=(*caps_of(body), *caps_of(body.inner("inferenceConfig"))),
            prompts=(body.get("system"), body.get("messages"), body.get("prompt")),
        )


def _tier_of(body: Row) -> Any:
    """Return the tier of a body, or of a log, which may have it as InvokeModel's headers do."""
    tier = body.get("serviceTier")
    return tier.get("type") if isinstance(tier, dict) else tier


_LOG: Final = (
    "schemaType schemaVersion timestamp accountId identity(arn) region inferenceRegion requestId "
    "operation modelId status errorCode serviceTier performanceConfig(latency) requestMetadata* "
    "input(inputContentType inputTokenCount cacheReadInputTokenCount cacheWriteInputTokenCount "
    "inputBodyJson(max_tokens anthropic_version serviceTier(type) inferenceConfig(maxTokens))) "
    "output(outputContentType outputTokenCount "
    "outputBodyJson(stopReason stop_reason metrics(latencyMs) serviceTier(type) usage*))"
)

ADAPTER: Final = Adapter(
    title="Bedrock invocation logs",
    signs=(_KIND, _BATCH, *_MESSAGES),
    recognizes=lambda row: (
        _KIND in row
        or _BATCH in row
        or ("@message" in row and not row.has("@message"))  # the header of a CSV
        or any(row.mentions(name, _KIND) for name in _MESSAGES)
    ),
    read=_read,
    allowed=members(
        f"{_LOG} tag recordId ts modelInput(max_tokens anthropic_version) "
        "modelOutput(id type role model stop_reason stop_sequence usage*) "
        "@timestamp @ptr @logStream @log logStreamName ingestionTime eventId id "
        f"@message({_LOG}) message({_LOG})"
    ),
)
