"""A span as usage records: one language-model call in counts, times and labels.

Nothing but the attributes named in `attributes` is used, and each is checked as a record's field.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from detectors.contract import FIRST_INSTANT, LAST_INSTANT, MAX_COUNT, StoredRecord, fit_units
from detectors.formats.adapters.gateways.langfuse import dialect_of_details
from detectors.formats.fields import LABEL_TEXT, PROVIDER_TEXT
from detectors.formats.json_logs.usage import reader
from detectors.formats.json_logs.usage.reader import (
    Reading,
    largest_of,
    names_of,
    tier_of,
    unknown_tier,
)
from detectors.formats.json_logs.usage.tables import PROVIDERS
from service.web.otlp import attributes as names
from service.web.otlp.caching import Input, find_input
from service.web.otlp.spans import NOT_READ, OtlpSpan, Value, first, read_number

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
_INPUTS, _TOTALS = frozenset(names.INPUT), frozenset(names.TOTAL)
_UNCACHED: Final = frozenset(names.UNCACHED)
_USUAL_ROLES: Final = (
    *("input_tokens", "output_tokens", "total"),
    *("cache_read_tokens", "cache_write_tokens", "output_reasoning_tokens"),
)
_USUAL: Final = {name: role for role in _USUAL_ROLES for name in names.named(role)}
_CACHE: Final = ("reads", "writes")
_WORDS: Final[Mapping[str, str]] = {"None": "null", "True": "true", "False": "false"}
_PYTHON: Final = re.compile(r"\b(?:None|True|False)\b")
_LONGEST_COPY: Final = 16_000
# What a count costs that is not as usual, and so many characters of a copy.
_COUNT_COST: Final = 12
_CHARACTERS: Final = 5
_EMPTY: Final = ("", "null", "None")
_ADDED: Final = ("input_tokens", "output_tokens")  # of a compaction


def read_usage(
    span: OtlpSpan, provider: str, spend: Callable[[int], object] = int
) -> list[Reading] | None:
    """Return the calls that a span's usage is; None if it has no usage.

    That of a span around calls is one of them, in case that nothing inside it has any. The list is
    empty if the usage can't be read. `spend` gets what it costs to read, before it is read.
    """
    values, usage = span.values, span.usage
    if values.get(names.OPERATION[0]) == "invoke_agent":
        sums = _cut(usage, names.SUMS)
        if sums:
            usage = {f"gen_ai.usage.{name}": sums[name] for name in sums}
            span = span._replace(usage=usage)
    has_counts = not names.USAGE.isdisjoint(usage)
    if has_counts and names.COPIES.isdisjoint(values):
        return _read_attributes(span, provider, spend)
    spend(sum(len(str(values[name])) for name in names.COPIES.intersection(values)) // _CHARACTERS)
    copies = {name: _read_copy(values[name]) for name in names.COPIES.intersection(values)}
    unread = [name for name, copy in copies.items() if copy is None]
    copied, noted = (
        next(filter(None, map(copies.get, each)), {})
        for each in (names.RAW_USAGE, names.LANGFUSE_USAGE)
    )
    if not has_counts:
        noted = noted or _cut(usage, names.LANGFUSE_PARTS)
    if not (has_counts or copied or noted or unread):
        return None
    readings = _read_attributes(span, provider, spend) if usage else []
    _replace(readings, copied, noted, provider, first(values, names.MODEL))
    if readings:
        answer = readings[0]
        answer.unknown.update(dict.fromkeys(unread, NOT_READ))
        if answer.reported_usd is None:
            cost = (_read_copy(first(values, names.LANGFUSE_COST)) or {}).get("total")
            answer.reported_usd = cost if isinstance(cost, float) else None
    return readings


def read_call(
    span: OtlpSpan, provider: str, reading: Reading, place: int, tag_attribute: str | None
) -> StoredRecord | None:
    """Return the record of a call of a span; None if its values are beyond those of a record.

    The calls after the first are those of other models that helped to answer it.
    """
    values, resource = span.values, span.origin.resource
    model = (place and _read_label(reading.model)) or _read_label(first(values, names.MODEL))
    start = span.start // 1_000
    counts = reading.prompt, reading.completion, reading.cached or 0, reading.written or 0
    if not model or max(counts) > MAX_COUNT or not _FIRST <= start < _LAST:
        return None
    latency = 0 if place else span.end - span.start
    tag = values.get(tag_attribute or "", resource.get(tag_attribute or ""))
    if tag is None:
        tag = first(values, names.SERVICE) or first(resource, names.SERVICE)
    environment = first(values, names.ENVIRONMENT) or first(resource, names.ENVIRONMENT)
    cap = 0 if place else min(read_number(first(values, names.MAX_TOKENS)), MAX_COUNT)
    # Without the provider's ID of a call, the same one however often it is sent.
    name = _read_label(first(values, names.RESPONSE_ID))
    name = name or f"{span.trace_id.hex()}-{span.span_id.hex()}"
    parts: dict[str, Any] = reading.parts
    tier: Any = first(values, names.TIER)
    odd = unknown_tier(tier)
    tier = tier_of(tier) or reading.service_tier
    unknown = {**reading.unknown, odd: 0} if odd else reading.unknown
    return StoredRecord(
        ts=_EPOCH + timedelta(microseconds=start),
        provider=provider,
        model=model,
        prompt_tokens=reading.prompt,
        completion_tokens=reading.completion,
        cached_tokens=reading.cached or None,
        cache_write_tokens=reading.written or None,
        latency_ms=latency / 1e6 if 0 < latency <= _MAX_LATENCY_NS else None,
        request_id=f"{name}.{place + 1}"[:_MAX_LABEL] if place else name,
        tag=_read_label(tag),
        declared_max_tokens=cap or None,
        service_tier=tier,
        environment=_read_label(environment),
        session_id=_read_label(first(values, names.SESSION)),
        status="error" if span.is_error else None,
        region=_read_label(reading.region) if reading.region else None,
        units=_read_units(reading) if reading.units else None,
        reported_usd=reading.reported_usd or None,  # 0 where its emitter knows no price
        input_assumed=1 if reading.is_assumed else None,
        unknown_fields=names_of(unknown) if unknown else None,
        unknown_largest=largest_of(unknown) if unknown else None,
        **parts,
    )


def is_around_calls(values: Mapping[str, Value]) -> bool:
    """Check for a span that says it is around calls, whose usage is theirs."""
    if values.get(names.OPERATION[0]) in _WRAPPERS:
        return True
    kind = first(values, (*names.SPAN_KIND, *names.OBSERVATION))
    if isinstance(kind, str) and kind.upper() in _WRAPPER_KINDS:
        return True
    function = values.get(names.FUNCTION[0])
    return function is not None and _FUNCTION_SPAN.fullmatch(str(function)) is not None


def _read_attributes(
    span: OtlpSpan, provider: str, spend: Callable[[int], object]
) -> list[Reading]:
    usage: Any = span.usage
    leaves_out: tuple[str, ...] | None
    known = find_input(span.origin.scope, span.origin.version, provider)
    if known is Input.ALL or not _UNCACHED.isdisjoint(usage):
        leaves_out = PROVIDERS.get(provider, ())
    else:
        leaves_out = _CACHE if known is Input.UNCACHED else None
        # Where a provider's total isn't passed on, that of its emitter proves nothing.
        both: Any = first(usage, names.INPUT) or 0, first(usage, names.OUTPUT) or 0
        usage = {name: n for name, n in usage.items() if name not in _TOTALS or n != sum(both)}
    usual = None if provider in PROVIDERS else _read_usual(usage, leaves_out)
    if usual is not None:
        return [usual]
    spend(_COUNT_COST * len(usage))
    if any(f"{names.COMPACTION}{name}" in usage for name in _ADDED):
        step = {name: usage.get(f"{names.COMPACTION}{name}", 0) for name in _ADDED}
        usage = {**usage, "iterations": [{"type": "compaction", **step}]}
    if _INPUTS.isdisjoint(usage):
        usage = {**usage, names.INPUT[0]: 0}
    model = first(span.values, names.MODEL)
    return reader.read_usage(
        usage, provider=provider, model=model, dialect="spans", leaves_out=leaves_out
    )


def _read_usual(usage: Mapping[str, float], leaves_out: tuple[str, ...] | None) -> Reading | None:
    """Return what the reader makes of a usage in which all is as usual, in a third of its time."""
    found: dict[str, Any] = {}
    for name, count in usage.items():
        role = _USUAL.get(name)
        if role is None or type(count) is not int or count < found.get(role, 0):
            return None
        found[role] = count
    prompt, completion = found.get("input_tokens"), found.get("output_tokens", 0)
    if prompt is None or max(found.values()) > MAX_COUNT:
        return None
    cached, written = found.get("cache_read_tokens"), found.get("cache_write_tokens")
    reasoning = found.get("output_reasoning_tokens", 0)
    is_whole = found.get("total", prompt + completion) == prompt + completion
    cache = (cached or 0) + (written or 0)
    if not is_whole or reasoning > completion:
        return None
    is_assumed = False
    if cache and (leaves_out or cache > prompt):
        is_clear = leaves_out is not None or not (cached and written)
        if leaves_out == () or "total" in found or not is_clear:
            return None
        prompt += cache
    elif cache and leaves_out is None:
        is_assumed = "total" not in found
    reading = Reading()
    reading.prompt, reading.completion = prompt, completion
    reading.cached, reading.written = cached, written
    reading.parts = {"reasoning_tokens": reasoning} if reasoning else {}
    reading.units, reading.unknown, reading.is_assumed = {}, {}, is_assumed
    reading.model = reading.service_tier = reading.region = reading.reported_usd = None
    return reading


def _replace(
    readings: list[Reading],
    copied: dict[str, Any],
    noted: dict[str, Any],
    provider: str,
    model: Value | None,
) -> None:
    """Prefer a copy of the provider's usage, which says more than the attributes made from it."""
    before = readings[0] if readings else None
    found = reader.read_usage(copied, provider=provider, model=model)
    if not found and noted:
        dialect = reader.dialect_of(noted)
        if dialect in (None, "langfuse"):
            dialect = dialect_of_details(noted)
        found = reader.read_usage(
            noted, provider=provider, model=model, dialect=dialect, may_lack_output=True
        )
    if not found and before is not None and copied:
        whole = {"input_tokens": before.prompt, "output_tokens": before.completion, **copied}
        found = reader.read_usage(whole, model=model, leaves_out=())
    if not found:
        return
    if before is not None:
        unknown = found[0].unknown
        for name, number in before.unknown.items():
            if name not in unknown or number > unknown[name]:
                unknown[name] = number
        found[0].reported_usd = found[0].reported_usd or before.reported_usd
        found[0].service_tier = found[0].service_tier or before.service_tier
    readings[:] = found


def _read_copy(text: Value | None) -> dict[str, Any] | None:
    """Return an object that is written as a text, in JSON or as Python prints it.

    None for what can't be read, such as a text that its exporter has cut off.
    """
    if not isinstance(text, str) or text in _EMPTY:
        return {}
    if len(text) > _LONGEST_COPY:
        return None
    for is_python in (False, True):
        if is_python:
            text = _PYTHON.sub(lambda found: _WORDS[found.group()], text).replace("'", '"')
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
    return None


def _cut(usage: Mapping[str, float], prefix: str) -> dict[str, Any]:
    """Return the numbers whose names have a prefix, without it."""
    return {name[len(prefix) :]: usage[name] for name in usage if name.startswith(prefix)}


def _read_units(reading: Reading) -> dict[str, float] | None:
    counts = {name: count or 0 for name, count in reading.fields().items()}
    return fit_units(counts, reading.units) or None


def read_provider(span: OtlpSpan) -> str:
    name = first(span.values, names.PROVIDER)
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
