"""Attributes that hold text of prompts and answers: requests with them are rejected.

`RULES` is also the table in docs/api/otlp.md. A value without text passes: what instrumentations
write when capture is off, such as `__REDACTED__`, or messages of roles and types only.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

_ANY: Final = ".*"


class Rule(NamedTuple):
    """The content attributes of some instrumentations, and the switch that turns them off.

    A name that ends in `.*` stands for every name below it. Without a switch, the attributes can
    only be dropped on their way.
    """

    of: str
    switch: str
    names: tuple[str, ...]


RULES: Final = (
    Rule(
        "OpenTelemetry's own, OpenLLMetry, LiteLLM, pydantic-ai and others that follow the"
        " semantic conventions",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=false; TRACELOOP_TRACE_CONTENT=false;"
        " litellm.turn_off_message_logging = True; InstrumentationSettings(include_content=False)",
        (
            *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
            *("gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
            *("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"),
            *("gen_ai.memory.query.text", "gen_ai.memory.records"),
            *("gen_ai.evaluation.explanation", "gen_ai.event.content"),
        ),
    ),
    Rule(
        "OpenLLMetry (opentelemetry-instrumentation-*, traceloop-sdk), OpenLIT",
        "TRACELOOP_TRACE_CONTENT=false; openlit.init(capture_message_content=False)",
        (
            *("gen_ai.prompt", "gen_ai.prompt.*", "gen_ai.completion", "gen_ai.completion.*"),
            *("gen_ai.content.prompt", "gen_ai.content.completion"),
            *("traceloop.entity.input", "traceloop.entity.output", "llm.request.functions.*"),
            *("llm.prompts", "llm.completions.*"),
        ),
    ),
    Rule(
        "OpenInference (openinference-instrumentation-*)",
        "OPENINFERENCE_HIDE_INPUTS=true, OPENINFERENCE_HIDE_OUTPUTS=true,"
        " OPENINFERENCE_HIDE_LLM_TOOLS=true, OPENINFERENCE_HIDE_EMBEDDINGS_TEXT=true",
        (
            *("input.value", "output.value", "llm.input_messages.*", "llm.output_messages.*"),
            *("llm.prompts.*", "llm.choices.*", "llm.tools.*", "embedding.embeddings.*"),
            *("retrieval.documents.*", "reranker.query", "reranker.input_documents.*"),
            "reranker.output_documents.*",
        ),
    ),
    Rule(
        "Vercel AI SDK",
        "experimental_telemetry: { recordInputs: false, recordOutputs: false }",
        (
            *("ai.prompt", "ai.prompt.*", "ai.response.text", "ai.response.object"),
            *("ai.response.toolCalls", "ai.response.reasoning", "ai.response.files"),
            *("ai.toolCall.args", "ai.toolCall.result", "ai.result.*", "ai.schema"),
            *("ai.value", "ai.values", "ai.embedding", "ai.embeddings"),
        ),
    ),
    Rule(
        "pydantic-ai",
        "InstrumentationSettings(include_content=False)",
        (
            *("pydantic_ai.all_messages", "all_messages_events", "final_result"),
            *("tool_arguments", "tool_response"),
        ),
    ),
    Rule(
        "Logfire's instrument_openai and instrument_anthropic",
        "",
        ("response_data", "request_data"),
    ),
    Rule(
        "Sentry",
        "send_default_pii=False, or include_prompts=False of the integration",
        (
            *("gen_ai.request.messages", "gen_ai.request.available_tools"),
            *("gen_ai.response.text", "gen_ai.response.tool_calls", "gen_ai.response.object"),
            *("gen_ai.tool.input", "gen_ai.tool.output", "ai.input_messages", "ai.responses"),
        ),
    ),
    Rule(
        "Langfuse",
        "Langfuse(mask=…)",
        (
            *("langfuse.observation.input", "langfuse.observation.output"),
            *("langfuse.trace.input", "langfuse.trace.output"),
        ),
    ),
)
NO_SWITCH: Final = "drop the attributes in an OpenTelemetry Collector"
_SWITCHES: Final = {name: rule.switch for rule in RULES for name in rule.names}
_EXACT: Final = frozenset(name for name in _SWITCHES if not name.endswith(_ANY))
_BELOW: Final = re.compile(
    "|".join(re.escape(name[:-1]) for name in _SWITCHES if name.endswith(_ANY))
)
_EVENT_BODY_NAME: Final = "gen_ai.event.content"
# The last part of names below messages that says what a message is, not what is in it.
_LABELS: Final = (".role", ".type", ".finish_reason", ".mime_type", ".vector")

# Attributes of events that are the body of a message, under any of the usual names.
_EVENT_PREFIX: Final = "gen_ai."
_EVENT_BODY: Final = frozenset(("content", "body", "message", "tool_calls", "arguments", "text"))

_EMPTY: Final = frozenset(("", "__REDACTED__", "[]", "{}", "null", "[Filtered]", "redacted"))
_MAX_SKELETON: Final = 64 * 1024
# JSON whose keys are these and whose texts are labels. Nothing in it is tried twice.
_KEY: Final = (
    r'"(?:role|parts|type|finish_reason|id|name|tool_call_id|model|stream|media_type|mime_type'
    r'|modality)"\s*+:'
)
_LABEL: Final = r'"[A-Za-z0-9_.:/-]{0,100}+"(?!\s*+:)'
_SKELETON: Final = re.compile(rf'[^"]*+(?:(?:{_KEY}|{_LABEL})[^"]*+)*+')
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)  # checks the syntax and makes no objects
_SHOWN: Final = 5


def published_name(name: str) -> str | None:
    """Return the name in the rules that an attribute's matches; its own may be a caller's text."""
    if name in _EXACT:
        return name
    below = _BELOW.match(name)
    return None if below is None or name.endswith(_LABELS) else f"{below[0]}*"


def published_event_name(event: str, name: str) -> str | None:
    """Return the name in the rules that an attribute of an event matches."""
    if event.startswith(_EVENT_PREFIX) and name in _EVENT_BODY:
        return _EVENT_BODY_NAME
    return published_name(name)


def has_text(value: str) -> bool:
    """Check whether a value holds text; roles, types and names of messages are none."""
    if value in _EMPTY:
        return False
    if len(value) > _MAX_SKELETON or value[0] not in "[{" or not _SKELETON.fullmatch(value):
        return True
    try:
        _JSON.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True
    return False


def describe(names: Iterable[str]) -> str:
    """Return the message of a rejected request: the rules' names, and how to turn them off."""
    found = sorted(names)
    shown = ", ".join(found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    switches = dict.fromkeys(_SWITCHES[name] for name in found)
    ways = [f"turn it off with {switch}" for switch in switches if switch]
    how = "; or ".join([*ways, NO_SWITCH])
    return f"The spans hold text in {shown}{more}, so we stored nothing: {how}."
