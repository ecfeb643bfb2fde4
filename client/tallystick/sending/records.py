"""A usage record: noted when a call is made, and serialized as JSON by the sending thread.

Only counts, times and labels are named here, so nothing else can get into a record. Every value
that is written is one that the service accepts: one rejected record would lose its batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any, NamedTuple

from tallystick.labels import clean_label
from tallystick.reading.units import fit_units
from tallystick.reading.usage.reader import MAX_COUNT

_FIRST_SECOND = 946_684_800  # 2000
_LAST_SECOND = 4_102_444_800  # 2100, exclusive
MAX_LATENCY_MS = 1e9
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Asked(NamedTuple):
    """The part of a record that is known before the call, and is the same for many calls."""

    provider: str
    endpoint: str | None = None
    tag: str | None = None
    declared_max_tokens: int | None = None
    prefix_hash: str | None = None
    prefix_hash_16k: str | None = None
    prefix_hash_64k: str | None = None
    environment: str | None = None
    session_id: str | None = None
    levels: tuple[str, ...] | None = None


class Record(NamedTuple):
    """One call's record.

    The queue holds bare tuples, which are cheaper to create; this names their members. Thousands
    may wait, so what can be shared is shared, and the usual parts are members: a dictionary for
    them would take as much memory as all the rest.
    """

    asked: Asked
    started_at: float
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    latency_ms: float | None = None
    request_id: str | None = None
    parts: dict[str, Any] | None = None  # the others


# The members of a `Record`, in their order.
Noted = tuple[Any, ...]


# A part, its total, and the part that shares the total.
_PARTS = (
    ("cache_write_1h_tokens", "cache_write_tokens", ""),
    ("reasoning_tokens", "completion_tokens", ""),
    ("audio_prompt_tokens", "prompt_tokens", ""),
    ("image_prompt_tokens", "prompt_tokens", "audio_prompt_tokens"),
    ("audio_completion_tokens", "completion_tokens", ""),
    ("image_completion_tokens", "completion_tokens", "audio_completion_tokens"),
)
CHOICES = {
    "service_tier": frozenset(("standard", "batch", "flex", "priority", "fast")),
    "status": frozenset(("ok", "error", "cancelled")),
    "billing": frozenset(("metered", "included")),
}
_RARE = frozenset(("units", "reported_usd", "prefix_hashes"))
MAX_REPORTED_USD = 1e6
_LOWER_DIGITS = frozenset("0123456789abcdef")
_LEVEL_DIGITS, _MAX_LEVELS = 16, 13
# Where hashes of 64 digits are among the levels.
_LEVELS_OF_HASHES = (("prefix_hash", 0), ("prefix_hash_16k", 4), ("prefix_hash_64k", 8))


def write_record(noted: Noted) -> str | None:
    """Return the record as JSON, or None if the service would reject it."""
    record = Record._make(noted)
    asked = Asked._make(record.asked)
    started_at, model, latency = record.started_at, clean_label(record.model), ""
    if record.latency_ms is not None and 0 <= record.latency_ms <= MAX_LATENCY_MS:
        latency = f',"latency_ms":{record.latency_ms:.3f}'
    prompt, completion = record.prompt_tokens, record.completion_tokens
    if model is None or not (is_count(prompt) and is_count(completion)):
        return None
    if not _FIRST_SECOND <= started_at < _LAST_SECOND:
        return None  # a clock that was never set
    whole = int(started_at)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    moment = f"{moment}.{int((started_at - whole) * 1e6):06}Z"
    return (
        f'{{"ts":"{moment}","provider":{quote(asked.provider)},"model":{quote(model)}'
        f',"prompt_tokens":{prompt},"completion_tokens":{completion}'
        f"{_number('cached_tokens', record.cached_tokens)}"
        f"{_number('cache_write_tokens', record.cache_write_tokens)}"
        f"{_number('declared_max_tokens', asked.declared_max_tokens)}"
        f"{latency}"
        f"{_text('endpoint', clean_label(asked.endpoint))}"
        f"{_text('request_id', clean_label(record.request_id))}"
        f"{_text('tag', asked.tag)}"
        f"{_text('prefix_hash', asked.prefix_hash)}"
        f"{_second(record, asked)}}}"
    )


def reason_of(write: object) -> str:
    """Return why what writes records leaves some of them out."""
    return getattr(write, "reason", "invalid record")


def _second(record: Record, asked: Asked) -> str:
    """Return the fields that only the second version has."""
    written = (
        f"{_text('prefix_hash_16k', asked.prefix_hash_16k)}"
        f"{_text('prefix_hash_64k', asked.prefix_hash_64k)}"
        f"{_text('environment', asked.environment)}{_text('session_id', asked.session_id)}"
    )
    if asked.levels:
        written += _levels(asked.levels)
    parts = record.parts or {}
    if record.reasoning_tokens:
        parts = {**parts, "reasoning_tokens": record.reasoning_tokens}
    if not parts:
        return written
    kept: dict[str, int] = {}
    for name, total, beside in _PARTS:
        count = parts.get(name)
        if is_count(count) and count:
            # The service rejects a part that exceeds its total, or whose total is dropped.
            whole = getattr(record, total)
            kept[name] = min(count, (whole if is_count(whole) else 0) - kept.get(beside, 0))
    written += "".join(_number(name, count) for name, count in kept.items() if count)
    written += _number("web_searches", parts.get("web_searches"))
    for name, choices in CHOICES.items():
        if parts.get(name) in choices:
            written += _text(name, parts[name])
    written += _text("region", clean_label(parts.get("region")))
    return written if _RARE.isdisjoint(parts) else written + _rest(parts, record, kept)


def _rest(parts: dict[str, Any], record: Record, kept: dict[str, int]) -> str:
    """Return the fields that hooks rarely see: units, a reported cost, hashes by level."""
    written, units, usd = "", parts.get("units"), parts.get("reported_usd")
    if isinstance(units, Mapping):
        totals = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
        given = {name: getattr(record, name) for name in totals}
        counts = {**{name: count for name, count in given.items() if is_count(count)}, **kept}
        if fitting := fit_units(counts, units):
            written += f',"units":{json.dumps(fitting, separators=(",", ":"))}'
    if usd is not None and is_reported_usd(usd):
        written += f',"reported_usd":{usd!r}'
    levels = parts.get("prefix_hashes")
    if levels and are_levels(levels):
        asked = Asked._make(record.asked)
        own = ((getattr(asked, name), level) for name, level in _LEVELS_OF_HASHES)
        # Hashes of the same prefix begin with the same digits.
        if all(
            level >= len(levels) or not hashed or hashed[:_LEVEL_DIGITS].lower() == levels[level]
            for hashed, level in own
        ):
            written += _levels(levels)
    return written


def _levels(hashes: Sequence[str]) -> str:
    return f',"prefix_hashes":["{quoted}"]' if (quoted := '","'.join(hashes)) else ""


def is_reported_usd(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_REPORTED_USD  # type: ignore[operator]


def are_levels(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and 0 < len(value) <= _MAX_LEVELS
        and all(
            isinstance(text, str) and len(text) == _LEVEL_DIGITS and _LOWER_DIGITS.issuperset(text)
            for text in value
        )
    )


def _number(name: str, value: int | None) -> str:
    return "" if value is None or not is_count(value) else f',"{name}":{value}'


def _text(name: str, value: str | None) -> str:
    return "" if value is None else f',"{name}":{quote(value)}'


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_prefix_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and _HEX_DIGITS.issuperset(text)


def is_provider(text: object) -> bool:
    """A lowercase label, as prices are looked up by."""
    if not isinstance(text, str) or not 0 < len(text) <= 64 or not text.isascii():
        return False
    return (
        text.lower() == text and text[0].isalnum() and all(c.isalnum() or c in "._-" for c in text)
    )
