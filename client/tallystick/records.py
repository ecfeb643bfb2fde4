"""A usage record as the service takes it, written once, as JSON, when the call is over.

Every value is one that the service accepts: one refused record would take its whole batch with it.
Only counts, times and labels are named here, so nothing else can get into a record.
"""

from __future__ import annotations

import time
from json.encoder import encode_basestring_ascii as quote
from typing import NamedTuple

from tallystick.usage import MAX_COUNT, Counts

_FIRST_SECOND = 946_684_800  # 2000
_LAST_SECOND = 4_102_444_800  # 2100, exclusive
_MAX_LATENCY_MS = 1e9
_last_second = (0, "1970-01-01T00:00:00")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Labels(NamedTuple):
    """The texts of a record, all of them short and the caller's own."""

    provider: str
    model: str
    endpoint: str | None = None
    request_id: str | None = None
    tag: str | None = None
    prefix_hash: str | None = None


class Measures(NamedTuple):
    """When a call began, how long it took, and which limit it had."""

    started_at: float
    latency_ms: float | None = None
    declared_max_tokens: int | None = None


def write_record(labels: Labels, counts: Counts, measures: Measures) -> str | None:
    """One JSON object; None where the service would refuse it."""
    moment = _moment(measures.started_at)
    prompt, completion, cached, written = counts
    if moment is None or not labels.model or not (_is_count(prompt) and _is_count(completion)):
        return None
    return (
        f'{{"ts":"{moment}","provider":{quote(labels.provider)},"model":{quote(labels.model)}'
        f',"prompt_tokens":{prompt},"completion_tokens":{completion}'
        f"{_number('cached_tokens', cached)}{_number('cache_write_tokens', written)}"
        f"{_number('declared_max_tokens', measures.declared_max_tokens)}"
        f"{_latency(measures.latency_ms)}{_texts(labels)}}}"
    )


def _number(name: str, value: int | None) -> str:
    return "" if value is None or not _is_count(value) else f',"{name}":{value}'


def _latency(value: float | None) -> str:
    return (
        f',"latency_ms":{value:.3f}' if value is not None and 0 <= value <= _MAX_LATENCY_MS else ""
    )


def _texts(labels: Labels) -> str:
    _, _, endpoint, request_id, tag, prefix_hash = labels
    text = ""
    if endpoint is not None:
        text = f',"endpoint":{quote(endpoint)}'
    if request_id is not None:
        text += f',"request_id":{quote(request_id)}'
    if tag is not None:
        text += f',"tag":{quote(tag)}'
    if prefix_hash is not None:
        text += f',"prefix_hash":"{prefix_hash}"'
    return text


def _moment(seconds: float) -> str | None:
    if not _FIRST_SECOND <= seconds < _LAST_SECOND:
        return None  # a clock that was never set
    whole = int(seconds)
    return f"{_text_of(whole)}.{int((seconds - whole) * 1e6):06}Z"


def _text_of(second: int) -> str:
    """Busy programs make many calls in the same second."""
    global _last_second
    known, text = _last_second
    if known != second:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _last_second = (second, text)
    return text


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_prefix_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and _HEX_DIGITS.issuperset(text)


def is_provider(text: object) -> bool:
    """A lowercase label, as prices are looked up by."""
    if not isinstance(text, str) or not 0 < len(text) <= 64 or not text.isascii():
        return False
    return text.lower() == text and text[0].isalnum() and all(map(_is_provider_character, text))


def _is_provider_character(character: str) -> bool:
    return character.isalnum() or character in "._-"
