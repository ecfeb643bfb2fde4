"""Calls as columns: the shape in which every reader hands them on.

A column is a plain list, one entry a call. What is absent is the empty string or 0, so that
absent, null, "" and 0 are the same from here on; only `latency_ms` keeps its nulls. `ts` counts
microseconds since 1970 in UTC. `service_tier` is no field of a record: only vendors' own logs
tell it, and it holds nothing but the tiers that are priced apart.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from detectors.contract import MAX_COUNT, UsageRecord
from detectors.formats.fields import (
    EPOCH,
    FIRST_MICROSECOND,
    LAST_MICROSECOND,
    MICROSECOND,
    are_prefix_hashes,
    has_control_characters,
    is_provider,
)

Columns = dict[str, list[Any]]

LABELS: Final = ("provider", "model", "endpoint", "request_id", "tag")
COUNTS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "declared_max_tokens",
)
COLUMNS: Final = ("ts", *LABELS, "prefix_hash", *COUNTS, "latency_ms", "service_tier")
SERVICE_TIERS: Final = ("batch", "flex", "priority", "fast")

_PRICED_APART: Final = frozenset(SERVICE_TIERS)


def columns_of(records: Sequence[UsageRecord]) -> Columns:
    """The columns of checked records, their times being in UTC; their tier is the standard one."""
    return {
        "ts": [(record.ts - EPOCH) // MICROSECOND for record in records],
        "provider": [record.provider for record in records],
        "model": [record.model for record in records],
        "endpoint": [record.endpoint or "" for record in records],
        "request_id": [record.request_id or "" for record in records],
        "tag": [record.tag or "" for record in records],
        "prefix_hash": [record.prefix_hash or "" for record in records],
        "prompt_tokens": [record.prompt_tokens for record in records],
        "completion_tokens": [record.completion_tokens for record in records],
        "cached_tokens": [record.cached_tokens or 0 for record in records],
        "cache_write_tokens": [record.cache_write_tokens or 0 for record in records],
        "declared_max_tokens": [record.declared_max_tokens or 0 for record in records],
        "latency_ms": [record.latency_ms for record in records],
        "service_tier": [""] * len(records),
    }


def service_tiers(named: Sequence[str | None]) -> list[str]:
    """The tiers that vendors' logs name; empty for a standard one, whatever it is called."""
    if _PRICED_APART.isdisjoint(named):
        return [""] * len(named)
    return [tier if tier in _PRICED_APART else "" for tier in named]


def records_of(columns: Columns) -> list[UsageRecord]:
    """The records that the columns hold; what is empty or 0 and optional is absent in them.

    A record has no place for the service tier.
    """
    values = zip(*(columns[name] for name in COLUMNS), strict=True)
    return [
        UsageRecord(
            ts=EPOCH + timedelta(microseconds=ts),
            provider=provider,
            model=model,
            endpoint=endpoint or None,
            request_id=request_id or None,
            tag=tag or None,
            prefix_hash=prefix_hash or None,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached or None,
            cache_write_tokens=cache_write or None,
            declared_max_tokens=declared_max or None,
            latency_ms=latency,
        )
        for (
            ts, provider, model, endpoint, request_id, tag, prefix_hash,
            prompt, completion, cached, cache_write, declared_max, latency, _,
        ) in values
    ]  # fmt: skip


def find_unclean_rows(columns: Columns, *, may_hold_control_characters: bool) -> set[int]:
    """The rows that hold what their types let through and the contract does not.

    Each column is checked as a whole first, which is nearly free; only a column that fails is
    searched for the rows that are to blame. `None` stands for a required value that is missing.
    """
    rows = _find_bad_instants(columns["ts"]) | _find_bad_providers(columns["provider"])
    rows |= _find_bad_hashes(columns["prefix_hash"])
    for name in COUNTS:
        rows |= _find_bad_counts(columns[name])
    rows |= _find_values(columns["model"], {""})
    if may_hold_control_characters:
        for name in LABELS:
            rows |= _find_control_characters(columns[name])
    return rows


def _find_values(column: list[Any], wrong: set[Any]) -> set[int]:
    if wrong.isdisjoint(column):
        return set()
    return {row for row, value in enumerate(column) if value in wrong}


def _find_bad_counts(counts: list[int | None]) -> set[int]:
    """Rows whose count is missing, or was added up from several to more than a count may be."""
    try:
        if max(counts, default=0) <= MAX_COUNT:  # type: ignore[type-var, operator]
            return set()
    except TypeError:
        pass
    return {row for row, count in enumerate(counts) if count is None or count > MAX_COUNT}


def _find_bad_instants(instants: list[int | None]) -> set[int]:
    known = [instant for instant in instants if instant is not None]
    if len(known) == len(instants) and (
        not known or (min(known) >= FIRST_MICROSECOND and max(known) < LAST_MICROSECOND)
    ):
        return set()
    return {
        row
        for row, instant in enumerate(instants)
        if instant is None or not FIRST_MICROSECOND <= instant < LAST_MICROSECOND
    }


def _find_bad_providers(providers: list[str]) -> set[int]:
    bad = {provider for provider in set(providers) if not is_provider(provider)}
    return _find_values(providers, bad)


def _find_bad_hashes(hashes: list[str]) -> set[int]:
    if are_prefix_hashes([text for text in hashes if text]):
        return set()
    return {row for row, text in enumerate(hashes) if text and not are_prefix_hashes([text])}


def _find_control_characters(texts: list[str]) -> set[int]:
    if not has_control_characters(texts):
        return set()
    return {row for row, text in enumerate(texts) if has_control_characters((text,))}
