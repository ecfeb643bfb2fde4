"""Calls as columns, which every reader returns.

A column is a plain list with one entry per call. Absent values are the empty string or 0, so
absent, null, "" and 0 are equal from here on; only `latency_ms` keeps its nulls. `ts` is
microseconds since 1970 in UTC. `service_tier` is not a field of a record: only the logs of model
providers have it, and only tiers with prices of their own are kept.
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
    """Return the columns of checked records with times in UTC; their tier is the standard tier."""
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
    """Return the records of the columns; optional values that are empty or 0 become absent.

    The service tier is lost, because a record has no field for it.
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
