"""Says why an object with numbers of tokens is not read, without a value of it.

Names are repeated only if they look like field names.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.adapters.rows import Row, parsed
from detectors.formats.json_logs.usage.reader import dialect_of, read_usage
from detectors.formats.problems import shown_name

# Members of which one is in every call of a source that we know and don't read.
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "aider's analytics": ("properties.main_model", "properties.edit_format"),
    "Cloudflare AI Gateway's logs": ("tokens_in", "request_head_complete"),
    "Kong AI Gateway's logs": ("ai.proxy.usage", "latencies"),
    "SGLang's answers": ("meta_info.e2e_latency", "meta_info"),
    "llm's logs": ("token_details", "conversation_id"),
    "Azure API Management's logs": ("DeploymentName", "PromptTokens"),
    "Cursor's usage events": ("Max Mode", "Output Tokens"),
    "LibreChat's transactions": ("tokenType", "rawAmount"),
    "Ollama's answers": ("prompt_eval_count", "eval_count"),
    "Zed's threads": ("data.cumulative_token_usage", "data.request_token_usage"),
}
SPANS: Final = "OpenTelemetry spans: send them to POST /otlp/v1/traces instead"
LISTED: Final = "calls in a list"
_SPANS: Final = (b"gen_ai.usage", b"llm.token_count", b"ai.usage.")
_OF_SPANS: Final = ("resourceSpans", "scopeSpans", "spans", "attributes", "spanId", "resourceLogs")
_WORDS: Final = (b"oken", b"sage", b"illed", b"eval_count")
_DEEPEST: Final = 5
_MAX_NAMES: Final = 4
_MAX_ITEMS: Final = 20
_MAX_DIGITS: Final = 16
_COUNT: Final = re.compile(r"token(?!ize|s?_?per)|eval_count", re.IGNORECASE)
_USAGE: Final = re.compile(r"usage|billed", re.IGNORECASE)
# Limits, settings and prompts: what they have about tokens was not counted in an answer.
_NO_COUNT: Final = re.compile(
    r"^(max|min|budget|limit|remaining|reset)|(limit|budget|price|cost|rate|window|threshold)s?$",
    re.IGNORECASE,
)
_PROMPTS: Final = frozenset(("request", "arguments", "content", "input", "parameters", "tools"))


def explain(row: Row, text: bytes, repeats: frozenset[str] = frozenset()) -> str:
    """Return the reason why there is no call in an object, with what would have to be known."""
    if not any(word in text for word in _WORDS):
        return NO_USAGE
    if any(name in text for name in _SPANS) and any(name in row for name in _OF_SPANS):
        return SPANS
    skipped = _PROMPTS | repeats
    document = row.plain([name for name in row.names() if name not in skipped])
    if listed := _find_list(document, skipped):
        return f"{LISTED} `{listed}`: write each on a line of its own (jq -c '.{listed}[]')"
    numbers = dict(_numbers_of(document, skipped))
    counts = [path for path in numbers if any(map(_COUNT.search, path.split(".")[-2:]))]
    usages = [path for path in numbers if _USAGE.search(path.rpartition(".")[0])]
    found = counts or usages
    if not found:
        return NO_USAGE
    names = ", ".join(sorted(found)[:_MAX_NAMES]) + (" and more" if found[_MAX_NAMES:] else "")
    source = source_of(document)
    whose = f" of {source}, which we don't read" if source else ""
    if usages:
        name, holder, lacks = usages[0].rpartition(".")[0], document, "with no field we know"
        for each in name.split("."):
            holder = parsed(holder.get(each)) if isinstance(holder, Mapping) else None
        if isinstance(holder, Mapping) and dialect_of(holder) is not None:
            is_whole = bool(read_usage(dict(holder)))
            lacks = "where we don't look for usage" if is_whole else "without the counts of a call"
        return f"has `{name}` {lacks}{whose}: {names}"
    return f"has token counts under names that we don't know{whose}: {names}"


def _find_list(value: Any, skipped: frozenset[str], path: str = "", depth: int = 0) -> str:
    """Return the path of a list of objects that have counts of tokens; empty if there is none."""
    if isinstance(value, list):
        numbers = _numbers_of(value[:_MAX_ITEMS], skipped, "_")
        return path if any(_COUNT.search(below) for below, _ in numbers) else ""
    if not isinstance(value, Mapping) or depth > _DEEPEST:
        return ""
    for name, inner in value.items():
        shown = shown_name(name, "")
        below = f"{path}.{shown}" if path else shown
        if (
            shown
            and name not in skipped
            and (found := _find_list(inner, skipped, below, depth + 1))
        ):
            return found
    return ""


def is_unread(reason: str) -> bool:
    """Check for a reason of `explain` that a mapping can solve."""
    return reason.startswith("has ")


def source_of(document: Mapping[str, Any]) -> str:
    """Return the name of a source that has such objects, or nothing."""
    return next(
        (name for name, signs in SOURCES.items() if all(_has(document, sign) for sign in signs)), ""
    )


def _has(document: Mapping[str, Any], path: str) -> bool:
    if path in document:
        return True
    value: Any = document
    for name in path.split("."):
        value = parsed(value)
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True


def _numbers_of(
    value: Any, skipped: frozenset[str], path: str = "", depth: int = 0
) -> Iterator[tuple[str, float]]:
    """Yield the paths of numbers other than zero, without limits and prompts.

    Some logs have their numbers as texts.
    """
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            shown = shown_name(name, "")
            if isinstance(inner, str) and inner.isdecimal() and len(inner) < _MAX_DIGITS:
                inner = int(inner)
            is_count = isinstance(inner, int | float)
            if shown and (is_count or name not in skipped) and not _NO_COUNT.search(shown):
                below = f"{path}.{shown}" if path else shown
                yield from _numbers_of(parsed(inner), skipped, below, depth + 1)
    elif isinstance(value, list):
        for inner in value[:_MAX_ITEMS]:
            if isinstance(inner, Mapping):
                yield from _numbers_of(inner, skipped, path, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value and path:
        yield path, value
