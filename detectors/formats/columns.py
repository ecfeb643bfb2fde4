"""Calls as columns: the shape in which every reader hands them on.

A column is a plain list, one entry a call. What is absent is the empty string or 0, so that
absent, null, "" and 0 are the same from here on; only `latency_ms` keeps its nulls. `ts` counts
microseconds since 1970 in UTC. `service_tier` is no field of a record: only vendors' own logs
tell it, and it holds nothing but the tiers that are priced apart.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from detectors.contract import UsageRecord
from detectors.formats.fields import EPOCH, MICROSECOND

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
