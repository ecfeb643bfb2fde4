"""A span as a usage record: one language-model call in counts, times and labels.

Nothing but the attributes named in `attributes` is used, and each is checked as a record's field.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from detectors.contract import FIRST_INSTANT, LAST_INSTANT, MAX_COUNT, StoredRecord
from detectors.formats.fields import LABEL_TEXT, PROVIDER_TEXT, SERVICE_TIERS
from service.web.otlp import attributes as names
from service.web.otlp.caching import Input, find_input
from service.web.otlp.spans import Span, Value, first, read_number

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = int((FIRST_INSTANT - _EPOCH).total_seconds()) * 1_000_000
_LAST: Final = int((LAST_INSTANT - _EPOCH).total_seconds()) * 1_000_000
_MAX_LABEL: Final = 200
_MAX_LATENCY_NS: Final = 10**15
# Spans around calls, which repeat the usage of the calls inside.
_WRAPPER_KINDS: Final = frozenset(("AGENT", "CHAIN", "TOOL", "GUARDRAIL", "EVALUATOR"))
_WRAPPERS: Final = frozenset(("invoke_agent", "create_agent", "execute_tool", "invoke_workflow"))
# The Vercel AI SDK's functions; the spans of the calls inside have a second part in their names.
_FUNCTION_SPAN: Final = re.compile(r"ai\.[A-Za-z]+")
_PROVIDERS: Final[Mapping[str, str]] = {
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.openai": "azure",
    "az.ai.inference": "azure",
    "azure-openai": "azure",
    "azure_openai": "azure",
    "aws.bedrock": "aws",
    "aws_bedrock": "aws",
    "amazon-bedrock": "aws",
    "bedrock": "aws",
    "gcp.vertex_ai": "google",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "google.vertex": "google",
    "google.generative-ai": "google",
    "vertex_ai": "google",
    "vertexai": "google",
    "gemini": "google",
    "google_genai": "google",
    "mistral_ai": "mistral",
    "mistralai": "mistral",
    "x_ai": "x-ai",
    "xai": "x-ai",
}
# What the Vercel AI SDK appends to a provider's name.
_KIND_OF_MODEL: Final = re.compile(
    r"\.(?:chat|responses|completions?|embedding|messages|image|transcription|speech)\Z"
)
_MODALITIES: Final = frozenset(
    (*names.AUDIO_INPUT, *names.IMAGE_INPUT, *names.AUDIO_OUTPUT, *names.IMAGE_OUTPUT)
)
_RAW_COUNT: Final = re.compile(r"""['"]([a-z0-9_]{1,40})['"]: ?(\d{1,13})\b""")
_RAW_CACHED: Final = ("cache_read_input_tokens", "cached_tokens")
_RAW_WRITTEN: Final = ("cache_creation_input_tokens", "cache_write_tokens")
_RAW_HOUR: Final = ("ephemeral_1h_input_tokens",)
_RAW_REASONING: Final = ("reasoning_tokens",)


def is_call(span: Span) -> bool:
    """Check for usage of one call, rather than the sum over the calls inside an agent."""
    values = span.values
    if names.USAGE.isdisjoint(values):
        return False
    if values.get(names.OPERATION[0]) in _WRAPPERS:
        return False
    if values.get(names.SPAN_KIND[0]) in _WRAPPER_KINDS:
        return False
    function = values.get(names.FUNCTION[0])
    return function is None or not _FUNCTION_SPAN.fullmatch(str(function))


def read_call(span: Span, tag_attribute: str | None = None) -> StoredRecord | None:
    """Return the record of a span; None if its values are beyond what a record may have."""
    values, resource = span.values, span.origin.resource
    provider = _read_provider(first(values, names.PROVIDER))
    model = _read_label(first(values, names.MODEL))
    start = span.start // 1_000
    counts = _read_counts(span, provider)
    if not model or counts is None or not _FIRST <= start < _LAST:
        return None
    latency = span.end - span.start
    tag = values.get(tag_attribute or "", resource.get(tag_attribute or ""))
    if tag is None:
        tag = first(values, names.SERVICE) or first(resource, names.SERVICE)
    environment = first(values, names.ENVIRONMENT) or first(resource, names.ENVIRONMENT)
    return StoredRecord(
        ts=_EPOCH + timedelta(microseconds=start),
        provider=provider,
        model=model,
        latency_ms=latency / 1e6 if 0 < latency <= _MAX_LATENCY_NS else None,
        request_id=_read_label(first(values, names.RESPONSE_ID)) or _span_name(span),
        tag=_read_label(tag),
        declared_max_tokens=min(read_number(first(values, names.MAX_TOKENS)), MAX_COUNT) or None,
        service_tier=_read_tier(first(values, names.TIER)),
        environment=_read_label(environment),
        session_id=_read_label(first(values, names.SESSION)),
        status="error" if span.is_error else None,
        input_assumed=1 if is_assumed(span) else None,
        **counts,
    )


def is_assumed(span: Span) -> bool:
    """Check for cached tokens of which nobody says whether the input includes them."""
    values = span.values
    cached = read_number(first(values, names.CACHED)) + read_number(first(values, names.WRITTEN))
    if not 0 < cached <= read_number(first(values, names.INPUT)):
        return False
    if names.UNCACHED[0] in values:
        return False
    provider = _read_provider(first(values, names.PROVIDER))
    return find_input(span.origin.scope, span.origin.version, provider) is Input.UNKNOWN


def _read_counts(span: Span, provider: str) -> dict[str, Any] | None:
    """Return the counts of a record; None if one is too large."""
    values = span.values
    raw = _read_raw(first(values, names.RAW_USAGE))
    cached = read_number(first(values, names.CACHED)) or _largest(raw, _RAW_CACHED)
    written = read_number(first(values, names.WRITTEN)) or _largest(raw, _RAW_WRITTEN)
    prompt = read_number(first(values, names.INPUT))
    if cached or written:
        prompt = _read_prompt(span, provider, prompt, cached + written)
    output = read_number(first(values, names.OUTPUT))
    if max(prompt, output, cached, written) > MAX_COUNT:
        return None
    reasoning = read_number(first(values, names.REASONING)) or _largest(raw, _RAW_REASONING)
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "cached_tokens": cached or None,
        "cache_write_tokens": written or None,
        "cache_write_1h_tokens": min(_largest(raw, _RAW_HOUR), written) or None,
        "reasoning_tokens": min(reasoning, output) or None,
    }
    return counts | _read_modalities(values, prompt, output)


def _read_prompt(span: Span, provider: str, prompt: int, cache: int) -> int:
    """Return the input tokens with the cached ones."""
    exact = span.values.get(names.UNCACHED[0])
    if exact is not None:
        return read_number(exact) + cache
    known = find_input(span.origin.scope, span.origin.version, provider)
    if known is Input.UNCACHED or (known is Input.UNKNOWN and cache > prompt):
        return prompt + cache
    return prompt


def _read_modalities(values: Mapping[str, Value], prompt: int, output: int) -> dict[str, int]:
    """Return the counts of audio and images, which most spans have none of."""
    found: dict[str, int] = {}
    if _MODALITIES.isdisjoint(values):
        return found
    for name, spellings, left in (
        ("audio_prompt_tokens", names.AUDIO_INPUT, prompt),
        ("image_prompt_tokens", names.IMAGE_INPUT, prompt),
        ("audio_completion_tokens", names.AUDIO_OUTPUT, output),
        ("image_completion_tokens", names.IMAGE_OUTPUT, output),
    ):
        count = read_number(first(values, spellings))
        if name == "image_prompt_tokens":
            left -= found.get("audio_prompt_tokens", 0)
        elif name == "image_completion_tokens":
            left -= found.get("audio_completion_tokens", 0)
        if count and left > 0:
            found[name] = min(count, left)
    return found


def _read_raw(text: Value | None) -> Mapping[str, int]:
    """Return the counts in a copy of a provider's usage; nothing else of it is read."""
    if not isinstance(text, str):
        return {}
    return {name: int(count) for name, count in _RAW_COUNT.findall(text[:4_000])}


def _largest(counts: Mapping[str, int], spellings: tuple[str, ...]) -> int:
    return max((counts.get(name, 0) for name in spellings), default=0) if counts else 0


def _read_provider(name: Value | None) -> str:
    if not isinstance(name, str) or len(name) > _MAX_LABEL:
        return "unknown"
    text = _KIND_OF_MODEL.sub("", name.lower())
    text = _PROVIDERS.get(text, text)
    return text if PROVIDER_TEXT.match(text) else "unknown"


def _read_label(value: Value | None) -> str | None:
    """Return a label; None for what is no label, such as one that is too long."""
    if not isinstance(value, str) or not value or len(value) > _MAX_LABEL:
        return None
    return value if LABEL_TEXT.match(value) else None


def _read_tier(value: Value | None) -> Any:
    return value if isinstance(value, str) and value in SERVICE_TIERS else None


def _span_name(span: Span) -> str:
    """Return the ID of a call whose provider's is missing: the same however often it is sent."""
    return f"{span.trace_id.hex()}-{span.span_id.hex()}"
