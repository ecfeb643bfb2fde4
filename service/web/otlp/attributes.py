"""The attributes that are read, by name. Everything else is dropped unread, or is content.

The names are those of the OpenTelemetry semantic conventions, today's and earlier, and those of
OpenInference, OpenLLMetry, the Vercel AI SDK, Sentry, Logfire and LiteLLM. Of several spellings,
the first that a span has counts.
"""

from collections.abc import Mapping
from typing import Final

INPUT: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",  # of an embedding
    "llm.usage.prompt_tokens",
    "ai.prompt_tokens.used",
)
OUTPUT: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "llm.usage.completion_tokens",
    "ai.completion_tokens.used",
)
CACHED: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "ai.usage.cachedInputTokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
)
WRITTEN: Final = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
)
UNCACHED: Final = ("ai.usage.inputTokenDetails.noCacheTokens",)
REASONING: Final = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "llm.token_count.completion_details.reasoning",
    "ai.usage.outputTokenDetails.reasoningTokens",
    "ai.usage.reasoningTokens",
    "gen_ai.usage.details.reasoning_tokens",
)
AUDIO_INPUT: Final = (
    "gen_ai.usage.audio.input_tokens",
    "gen_ai.usage.input_audio_tokens",
    "llm.token_count.prompt_details.audio",
    "gen_ai.usage.details.input_audio_tokens",
)
AUDIO_OUTPUT: Final = (
    "gen_ai.usage.audio.output_tokens",
    "gen_ai.usage.output_audio_tokens",
    "llm.token_count.completion_details.audio",
    "gen_ai.usage.details.output_audio_tokens",
)
IMAGE_INPUT: Final = ("gen_ai.usage.image.input_tokens",)
IMAGE_OUTPUT: Final = ("gen_ai.usage.image.output_tokens",)
# Counts inside a text: LiteLLM's and Logfire's copies of what the provider answered.
RAW_USAGE: Final = ("metadata.usage_object", "gen_ai.usage.raw")
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
)
RESPONSE_ID: Final = ("gen_ai.response.id", "ai.response.id")
OPERATION: Final = ("gen_ai.operation.name",)
SPAN_KIND: Final = ("openinference.span.kind",)
FUNCTION: Final = ("ai.operationId",)
SESSION: Final = ("gen_ai.conversation.id", "session.id", "ai.telemetry.metadata.sessionId")
TIER: Final = (
    "openai.response.service_tier",
    "gen_ai.openai.response.service_tier",
    "gen_ai.response.service_tier",
)
# Also of a resource.
SERVICE: Final = ("service.name",)
ENVIRONMENT: Final = ("deployment.environment.name", "deployment.environment")

COUNTS: Final = (
    *(*INPUT, *OUTPUT, *CACHED, *WRITTEN, *UNCACHED, *REASONING, *MAX_TOKENS),
    *(*AUDIO_INPUT, *AUDIO_OUTPUT, *IMAGE_INPUT, *IMAGE_OUTPUT),
)
TEXTS: Final = (
    *(*PROVIDER, *MODEL, *RESPONSE_ID, *OPERATION, *SPAN_KIND, *FUNCTION, *SESSION, *TIER),
    *(*SERVICE, *ENVIRONMENT, *RAW_USAGE),
)
USAGE: Final = frozenset((*INPUT, *OUTPUT))

SKIPPED, COUNT, TEXT, CONTENT = range(4)
READ: Final[Mapping[str, int]] = {
    **dict.fromkeys(COUNTS, COUNT),
    **dict.fromkeys(TEXTS, TEXT),
}
