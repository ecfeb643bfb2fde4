"""Attributes that hold text of prompts and answers: spans with them are rejected.

`NAMES` and `SWITCHES` are also in docs/api/otlp.md. A value without text passes: what
instrumentations write when capture is off, such as `[REDACTED]`, or messages of roles and types
only. Definitions of tools are nobody's prompt; they are skipped like any other attribute.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

_ANY: Final = ".*"
# A name that ends in `.*` stands for every name below it.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "OpenTelemetry's semantic conventions": (
        *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
        *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        *("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"),
        *("gen_ai.memory.query.text", "gen_ai.memory.records"),
        *("gen_ai.evaluation.explanation", "gen_ai.event.content"),
    ),
    "OpenLLMetry, OpenLIT": (
        *("gen_ai.prompt", "gen_ai.prompt.*", "gen_ai.completion", "gen_ai.completion.*"),
        *("gen_ai.content.prompt", "gen_ai.content.completion"),
        *("traceloop.entity.input", "traceloop.entity.output"),
        *("llm.prompts", "llm.completions.*", "gen_ai.tool.args"),
    ),
    "OpenInference": (
        *("input.value", "output.value", "llm.input_messages.*", "llm.output_messages.*"),
        *("llm.prompts.*", "llm.choices.*", "embedding.embeddings.*"),
        *("retrieval.documents.*", "reranker.query", "reranker.input_documents.*"),
        "reranker.output_documents.*",
    ),
    "Vercel AI SDK": (
        *("ai.prompt", "ai.prompt.*", "ai.response.text", "ai.response.object"),
        *("ai.response.toolCalls", "ai.response.reasoning", "ai.response.files"),
        *("ai.toolCall.args", "ai.toolCall.result", "ai.result.*"),
        *("ai.value", "ai.values", "ai.embedding", "ai.embeddings"),
    ),
    "pydantic-ai": (
        *("pydantic_ai.all_messages", "all_messages_events", "final_result"),
        *("tool_arguments", "tool_response"),
    ),
    "Logfire": ("response_data", "request_data"),
    "Sentry": (
        *("gen_ai.request.messages", "gen_ai.response.text", "gen_ai.response.tool_calls"),
        *("gen_ai.response.object", "gen_ai.tool.input", "gen_ai.tool.output"),
        *("ai.input_messages", "ai.responses"),
    ),
    "Langfuse": (
        *("langfuse.observation.input", "langfuse.observation.output"),
        *("langfuse.trace.input", "langfuse.trace.output"),
    ),
}
DROP: Final = "drop {} in an OpenTelemetry Collector"
COLLECTOR: Final = DROP.format("the attributes")


class Switch(NamedTuple):
    """What keeps text out of an instrumentation's spans.

    A scope that ends in `*` stands for every scope that begins so; the longest one counts.
    `despite` are attributes that it exports all the same.
    """

    scope: str
    switch: str
    despite: tuple[str, ...] = ()


_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=false"
_TRACELOOP: Final = "TRACELOOP_TRACE_CONTENT=false"
SWITCHES: Final = (
    Switch("@sentry/*", "Sentry.init({ sendDefaultPii: false })"),
    Switch("@traceloop/*", "traceContent: false of the instrumentation or of traceloop.initialize"),
    Switch("agent_framework", "ENABLE_SENSITIVE_DATA=false"),
    Switch("ai", "experimental_telemetry: { recordInputs: false, recordOutputs: false }"),
    Switch("gcp.vertex.agent", f"ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false and {_CAPTURE}"),
    Switch("gen_ai", "telemetry: { recordInputs: false, recordOutputs: false }"),
    Switch("langfuse-sdk", "Langfuse(mask=lambda *, data, **_: None)"),
    Switch("langsmith", "LANGSMITH_HIDE_INPUTS=true and LANGSMITH_HIDE_OUTPUTS=true"),
    Switch("litellm", "litellm.turn_off_message_logging = True"),
    Switch("logfire.*", ""),
    Switch(
        "openinference.instrumentation.*",
        "OPENINFERENCE_HIDE_INPUTS=true, OPENINFERENCE_HIDE_OUTPUTS=true and"
        " OPENINFERENCE_HIDE_EMBEDDINGS_TEXT=true",
    ),
    Switch(
        "openlit*",
        "openlit.init(capture_message_content=False)",
        despite=("gen_ai.tool.args", "gen_ai.tool.call.arguments"),
    ),
    Switch("opentelemetry.instrumentation.*", _TRACELOOP),
    Switch("opentelemetry.instrumentation.crewai*", ""),
    Switch("opentelemetry.instrumentation.genai.*", _CAPTURE),
    Switch("opentelemetry.instrumentation.openai_v2", _CAPTURE),
    Switch("opentelemetry.util.genai.*", _CAPTURE),
    Switch("pydantic-ai", "InstrumentationSettings(include_content=False)"),
    Switch(
        "strands.telemetry.tracer", "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_unredacted_attributes="
    ),
    Switch("traceloop*", _TRACELOOP),
)
_EXACT: Final = frozenset(
    name for names in NAMES.values() for name in names if not name.endswith(_ANY)
)
_BELOW: Final = re.compile(
    "|".join(
        re.escape(name[:-1]) for names in NAMES.values() for name in names if name.endswith(_ANY)
    )
)
_EVENT_BODY_NAME: Final = "gen_ai.event.content"
# Below names of content, but nobody's prompt: what a message is, and which tools there are.
_LABELS: Final = (
    *(".role", ".type", ".finish_reason", ".mime_type", ".vector"),
    *("ai.prompt.tools", "ai.prompt.toolChoice"),
)

# Attributes of events that are the body of a message, under any of the usual names.
_EVENT_PREFIX: Final = "gen_ai."
_EVENT_BODY: Final = frozenset(
    ("content", "body", "message", "tool_calls", "tool.result", "arguments", "text")
)

_MAX_SKELETON: Final = 64 * 1024
_MAX_MARK: Final = 100
# What stands in place of a text: nothing, punctuation, such a word, or a few in brackets with one.
_HIDDEN: Final = frozenset(
    (
        *("redacted", "filtered", "masked", "hidden", "removed", "omitted", "scrubbed", "stripped"),
        *("anonymized", "anonymised", "obfuscated", "disabled", "excluded", "suppressed"),
    )
)
_WORD: Final = rf"(?:(?:{'|'.join(sorted(_HIDDEN))})(?:[ _-]by[ _-][a-z0-9._-]{{1,40}}+)?)?+"
_AROUND: Final = " \t\n*_.,#<>[](){}…•█\"'-"
_OPEN, _CLOSE = frozenset("<[({*_"), frozenset(">])}*_")
_IS_WORD: Final = re.compile(_WORD, re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_MARK: Final = rf"[\s*_.#<>\[\](){{}}…•█-]{{0,4}}+(?i:{_WORD})[\s*_.#<>\[\](){{}}…•█-]{{0,4}}+"
# JSON whose keys are these and whose texts are labels or marks. Nothing in it is tried twice.
_KEY: Final = (
    r'"(?:role|parts|type|finish_reason|id|name|tool_call_id|call_id|model|stream|media_type'
    r'|mime_type|modality|index|status|tool_calls|tool_call|function|messages)"\s*+:'
)
_HELD: Final = (
    r'"(?:content|text|arguments|args|result|response|output|input|data|message|value|refusal'
    r'|reasoning|thinking|toolUse|toolResult|prompt|query)"\s*+:\s*+'
    rf'(?:null|\[\s*+\]|\{{\s*+\}}|\[(?=\s*+[\[{{])|"{_MARK}"(?!\s*+:))'
)
_LABEL: Final = rf'"(?:[A-Za-z0-9_.:/-]{{0,100}}+"|{_MARK}")(?!\s*+:)'
_SKELETON: Final = re.compile(rf'[^"]*+(?:(?:{_KEY}|{_HELD}|{_LABEL})[^"]*+)*+')
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)  # checks the syntax and makes no objects


def published_name(name: str) -> str | None:
    """Return the name in `NAMES` that an attribute's matches; its own may be a caller's text."""
    if name in _EXACT:
        return name
    below = _BELOW.match(name)
    return None if below is None or name.endswith(_LABELS) else f"{below[0]}*"


def published_event_name(event: str, name: str) -> str | None:
    """Return the name in `NAMES` that an attribute of an event matches."""
    if event.startswith(_EVENT_PREFIX) and name in _EVENT_BODY:
        return _EVENT_BODY_NAME
    return published_name(name)


def has_text(value: str) -> bool:
    """Check whether a value holds text; roles, types, names and marks of redaction are none."""
    if len(value) <= _MAX_MARK and _is_mark(value):
        return False
    if len(value) > _MAX_SKELETON or value[0] not in "[{" or not _SKELETON.fullmatch(value):
        return True
    try:
        _JSON.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True
    return False


def _is_mark(value: str) -> bool:
    """Check for what stands in place of a text: `""`, `***`, `[REDACTED]`, `<masked by us>`."""
    text = value.strip(_AROUND)
    if text == "null" or _IS_WORD.fullmatch(text):
        return True
    is_enclosed = value[0] in _OPEN and value[-1] in _CLOSE and '"' not in text
    return is_enclosed and not _HIDDEN.isdisjoint(_BETWEEN_WORDS.split(text.lower()))


def find_switch(scope: str) -> Switch | None:
    """Return how to keep text out of an instrumentation's spans, if we know it."""
    fits = [
        each
        for each in SWITCHES
        if (scope.startswith(each.scope[:-1]) if each.scope.endswith("*") else scope == each.scope)
    ]
    return max(fits, key=lambda each: len(each.scope), default=None)
