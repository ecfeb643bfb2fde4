"""The attributes that are read, by name. Everything else is dropped unread, or is content.

The names are those of the OpenTelemetry semantic conventions, today's and earlier, and those of
OpenInference, OpenLLMetry, the Vercel AI SDK, Sentry, Logfire, LiteLLM and Langfuse. Those of usage
are in `fields.toml`, as of all other sources. Of several labels, the first that a span has counts.
"""

from collections.abc import Mapping
from typing import Any, Final

from detectors.formats.json_logs.usage.tables import FAMILIES

_USAGES: Final[Mapping[str, Any]] = FAMILIES["spans"]


def named(*roles: str) -> tuple[str, ...]:
    return tuple(name for name, role in _USAGES.items() if role in roles)


INPUT: Final = named("input_tokens")
OUTPUT: Final = named("output_tokens")
TOTAL: Final = named("total")
CACHED: Final = named("cache_read_tokens")
UNCACHED: Final = named("uncached")
# A compaction is no part of the other counts.
COMPACTION: Final = "anthropic.usage.compaction."
# Usage inside a text: copies of what the provider answered by LiteLLM, Logfire and LangChain, and
# Langfuse's.
RAW_USAGE: Final = (
    "gen_ai.usage.raw",
    "metadata.usage_object",
    "langsmith.metadata.usage_metadata",
)
LANGFUSE_USAGE: Final = ("langfuse.observation.usage_details",)
LANGFUSE_COST: Final = ("langfuse.observation.cost_details",)
COPIES: Final = frozenset((*RAW_USAGE, *LANGFUSE_USAGE))
# pydantic-ai's sums over the calls of an agent, under the names of a call's.
SUMS: Final = "gen_ai.aggregated_usage."
LANGFUSE_PARTS: Final = "langfuse.observation.usage_details."
# Any other number below these counts something that we don't know.
NAMESPACES: Final = (
    *("gen_ai.usage.", "llm.token_count.", "llm.usage.", "ai.usage.", "anthropic.usage."),
    *(LANGFUSE_PARTS, SUMS),
)
MAX_TOKENS: Final = (
    "gen_ai.request.max_tokens",
    "ai.settings.maxOutputTokens",
    "ai.settings.maxTokens",
    "llm.request.max_tokens",
)
PROVIDER: Final = (
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "ai.model.provider",
    "llm.system",
)
MODEL: Final = (
    "gen_ai.response.model",
    "llm.response.model_name",
    "ai.response.model",
    "llm.response.model",
    "llm.model_name",
    "embedding.model_name",
    "gen_ai.request.model",
    "llm.request.model_name",
    "llm.request.model",
    "ai.model.id",
    "ai.model_id",
    "langfuse.observation.model.name",
    "model_name",  # of an agent of pydantic-ai
)
RESPONSE_ID: Final = ("gen_ai.response.id", "ai.response.id")
OPERATION: Final = ("gen_ai.operation.name",)
SPAN_KIND: Final = ("openinference.span.kind",)
FUNCTION: Final = ("ai.operationId",)
OBSERVATION: Final = ("langfuse.observation.type",)
# A span with one of these says what it is.
KINDS: Final = frozenset((*OPERATION, *SPAN_KIND, *FUNCTION, *OBSERVATION))
SESSION: Final = ("gen_ai.conversation.id", "session.id", "ai.telemetry.metadata.sessionId")
TIER: Final = (
    "openai.response.service_tier",
    "gen_ai.openai.response.service_tier",
    "gen_ai.response.service_tier",
)
# Also of a resource.
SERVICE: Final = ("service.name",)
ENVIRONMENT: Final = ("deployment.environment.name", "deployment.environment")

COUNTS: Final = tuple(name for name in _USAGES if "." in name)
TEXTS: Final = (
    *(*PROVIDER, *MODEL, *RESPONSE_ID, *OPERATION, *SPAN_KIND, *FUNCTION, *SESSION, *TIER),
    *(*OBSERVATION, *SERVICE, *ENVIRONMENT, *RAW_USAGE, *LANGFUSE_USAGE, *LANGFUSE_COST),
)
# A span without any of these is no call.
USAGE: Final = frozenset((*INPUT, *OUTPUT))
_TOKENS: Final = ("tokens", "token_count", "tokencount")
_OF: Final = ("input", "output", "prompt", "completion", "total", "cached", "cache", "reasoning")

SKIPPED, USED, COUNT, TEXT, CONTENT, OTHER, WHOLE = range(7)
READ: Final[Mapping[str, int]] = {
    **dict.fromkeys(COUNTS, USED),
    **dict.fromkeys(MAX_TOKENS, COUNT),
    **dict.fromkeys(TEXTS, TEXT),
}


def counts_tokens(name: str) -> bool:
    """Check for another name that says what it counts; a span with no other usage is mentioned."""
    lower = name.lower()
    if not lower.endswith(_TOKENS):
        return False
    return lower[: lower.rindex("token")].rstrip("._").endswith(_OF)
