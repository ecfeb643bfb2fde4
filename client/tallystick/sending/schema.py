"""The record schema, for what others may have changed: a spool on disk, a callback, a test.

A field that is not named here never leaves, and a label is no longer than the service accepts.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Callable

from tallystick.labels import MAX_TAG, clean_label
from tallystick.reading.units import MAX_UNITS, UNITS, is_amount
from tallystick.sending.records import (
    CHOICES,
    MAX_LATENCY_MS,
    are_levels,
    is_count,
    is_prefix_hash,
    is_provider,
    is_reported_usd,
)

LABELS = ("model", "endpoint", "request_id", "tag", "environment", "session_id", "region")
HASHES = ("prefix_hash", "prefix_hash_16k", "prefix_hash_64k")
LEVELS = "prefix_hashes"
COUNTS = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
    *("declared_max_tokens", "cache_write_1h_tokens", "reasoning_tokens", "audio_prompt_tokens"),
    *("audio_completion_tokens", "image_prompt_tokens", "image_completion_tokens", "web_searches"),
)
REQUIRED = ("ts", "provider", "model", "prompt_tokens", "completion_tokens")
_MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


def find_problem(record: object) -> str | None:
    """Return what is wrong with a record, without any value of it; None if it may be sent."""
    if not isinstance(record, dict):
        return "it is not an object"
    for name in REQUIRED:
        if name not in record:
            return f"{name} is missing"
    for name, value in record.items():
        check = _CHECKS.get(name)
        if check is None:
            return "it has a field that is not in the schema"
        if not check(value):
            return f"{name} is invalid"
    return "tag is invalid" if len(record.get("tag", "")) > MAX_TAG else None


def read_line(line: str) -> dict[str, Any] | None:
    """Return the record of a line, or None if it is not whole, or not one of ours."""
    try:
        record = json.loads(line, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    return None if find_problem(record) else record


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated names: all values would be sent, and only the last is checked."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def first_version(line: str) -> str:
    """Return a line as a service takes it that has only the first version of the record.

    It has no environment, so that it is the tag of calls without one.
    """
    record = json.loads(line)
    kept = {name: value for name, value in record.items() if name in _FIRST_VERSION}
    if "environment" in record:
        kept.setdefault("tag", record["environment"])
    return json.dumps(kept, separators=(",", ":"))


def _are_units(value: object) -> bool:
    if not isinstance(value, dict) or not 0 < len(value) <= MAX_UNITS:
        return False
    return all(name in UNITS and is_amount(name, amount) for name, amount in value.items())


def _is_moment(value: object) -> bool:
    """Check for a time that exists: a damaged line may have the month 99."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:-1])
    except ValueError:
        return False
    return True


_CHECKS: dict[str, Callable[[Any], object]] = {
    "ts": _is_moment,
    "provider": is_provider,
    "latency_ms": lambda value: type(value) in (int, float) and 0 <= value <= MAX_LATENCY_MS,
    **dict.fromkeys(LABELS, lambda value: isinstance(value, str) and clean_label(value) == value),
    **dict.fromkeys(HASHES, is_prefix_hash),
    **dict.fromkeys(COUNTS, is_count),
    "units": _are_units,
    "reported_usd": is_reported_usd,
    LEVELS: are_levels,
    # Of a tuple, because a set fails for a value that cannot be hashed.
    **{name: tuple(choices).__contains__ for name, choices in CHOICES.items()},
}
_FIRST_VERSION = frozenset(
    (
        *("ts", "provider", "model", "prompt_tokens", "completion_tokens", "cached_tokens"),
        *("cache_write_tokens", "declared_max_tokens", "latency_ms", "endpoint", "request_id"),
        *("tag", "prefix_hash"),
    )
)
