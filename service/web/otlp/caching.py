"""Whether a span's input tokens include the cached ones: by provider, scope and version.

`RULES` is also a table in docs/api/otlp.md. What a span's own numbers prove comes first. Where
nothing is known, cached tokens that exceed the input are added to it, and others are taken to be
in it.
"""

from enum import Enum
from typing import Final, NamedTuple


class Input(Enum):
    """What the count of input tokens is of."""

    ALL = "all tokens"
    UNCACHED = "tokens that are not from the cache"
    UNKNOWN = "unknown"


class Rule(NamedTuple):
    """What the input tokens of an instrumentation are, from a version on."""

    scope: str
    since: tuple[int, ...]
    input: Input
    source: str


_BEDROCK: Final = "its `span_utils.py`: `inputTokens` of Converse, with what was cached beside it"
_JAVASCRIPT: Final = "its `index.js`, 0.27: `input_tokens` as Anthropic answers them"
_SHAPE: Final = "its spans of a recorded exchange, in tests/service/otlp/frameworks"
_RECORDED: Final = "its export of a recorded exchange, in tests/service/otlp/exports"
# Providers whose own input tokens include the cached ones; instrumentations pass them on.
INCLUSIVE_PROVIDERS: Final = frozenset(
    ("openai", "azure", "google", "x-ai", "groq", "deepseek", "mistral", "openrouter")
)
# Of the others, such as Anthropic, whose own input tokens exclude the cached ones.
RULES: Final = (
    Rule("@sentry/node", (10, 78), Input.ALL, _SHAPE),
    Rule("com.anthropic.sdk.python", (2, 12), Input.ALL, _RECORDED),
    Rule("opentelemetry.instrumentation.anthropic", (0, 62), Input.ALL, _RECORDED),
    Rule("openinference.instrumentation.anthropic", (3, 1), Input.ALL, _RECORDED),
    Rule("openinference.instrumentation.claude_agent_sdk", (0, 1, 22), Input.ALL, _SHAPE),
    Rule("openinference.instrumentation.langchain", (0, 1, 80), Input.ALL, _RECORDED),
    Rule("pydantic-ai", (2, 68), Input.ALL, _RECORDED),
    Rule("logfire.anthropic", (5, 2), Input.ALL, _RECORDED),
    Rule("litellm", (), Input.ALL, _RECORDED),
    Rule("strands.telemetry.tracer", (), Input.ALL, _SHAPE),
    Rule("opentelemetry.instrumentation.bedrock", (), Input.UNCACHED, _BEDROCK),
    Rule("@traceloop/instrumentation-anthropic", (), Input.UNCACHED, _JAVASCRIPT),
    Rule("openlit.instrumentation.anthropic", (), Input.UNCACHED, _RECORDED),
)
_SCOPES: Final = {rule.scope: rule for rule in RULES}


def find_input(scope: str, version: str, provider: str) -> Input:
    """Return what the input tokens of a scope's spans are, for a provider's calls."""
    if provider in INCLUSIVE_PROVIDERS:
        return Input.ALL
    rule = _SCOPES.get(scope)
    if rule is None or _parse(version) < rule.since:
        return Input.UNKNOWN
    return rule.input


def _parse(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; those of what is no version are below any other."""
    numbers = []
    for part in version.split(".", 3)[:3]:
        digits = part[:9]
        if not (digits.isascii() and digits.isdigit()):
            break
        numbers.append(int(digits))
    return tuple(numbers)
