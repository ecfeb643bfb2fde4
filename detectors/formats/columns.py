"""Calls as columns, which every reader returns.

A column is a plain list with one entry per call. Absent values are the empty string or 0, so
absent, null, "" and 0 are equal from here on; only `latency_ms` keeps its nulls. `ts` is
microseconds since 1970 in UTC. Of the service tiers only those with prices of their own are kept.

`COLUMNS` always exist. A column of `OPTIONAL_COLUMNS`, the other fields of the second version of
the record and of a stored one, exists only where some call has a value, so that ordinary logs cost
nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from detectors.contract import (
    RECORD_FIELDS,
    RECORD_V2_FIELDS,
    STORED_FIELDS,
    V1_FIELDS,
    UsageRecord,
    UsageRecordV2,
    names_of,
)
from detectors.formats.fields import SERVICE_TIERS
from detectors.formats.moments import EPOCH, MICROSECOND

Columns = dict[str, list[Any]]

LABELS: Final = names_of(V1_FIELDS, "provider", "model", "label")
COUNTS: Final = names_of(V1_FIELDS, "count")
COLUMNS: Final = ("ts", *LABELS, "prefix_hash", *COUNTS, "latency_ms", "service_tier")
_OPTIONAL: Final = tuple(field for field in STORED_FIELDS if field.name not in COLUMNS)
OPTIONAL_COUNTS: Final = names_of(_OPTIONAL, "count")
OPTIONAL_HASHES: Final = names_of(_OPTIONAL, "hash")
OPTIONAL_LABELS: Final = names_of(_OPTIONAL, "label", "choice")
ASSUMED: Final = "input_assumed"
OPTIONAL_COLUMNS: Final = tuple(field.name for field in _OPTIONAL)
OPTIONAL_NUMBERS: Final = names_of(_OPTIONAL, "count", "mark")
# Labels that repeat and that rules only compare, so that numbers replace them.
NUMBERED_LABELS: Final = ("prefix_hash", *OPTIONAL_HASHES, "session_id")
_ZERO_IS_A_VALUE: Final = ("prompt_tokens", "completion_tokens", "latency_ms")
_PRICED_APART: Final = frozenset(SERVICE_TIERS)


def columns_of(records: Sequence[UsageRecord]) -> Columns:
    """Return the columns of checked records with times in UTC."""
    columns: Columns = {
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
        "service_tier": service_tiers(
            [getattr(record, "service_tier", None) for record in records]
        ),
    }
    return columns | _optional_columns(records)


def _optional_columns(records: Sequence[UsageRecord]) -> Columns:
    if set(map(type, records)) <= {UsageRecord}:
        return {}
    columns: Columns = {}
    for name in OPTIONAL_COLUMNS:
        values = [getattr(record, name, None) for record in records]
        if any(values):
            empty = empty_value(name)
            columns[name] = [value or empty for value in values]
    return columns


def empty_value(name: str) -> Any:
    """Return the value of an optional column where a call has none."""
    return 0 if name in OPTIONAL_NUMBERS else ""


def present_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a log that has these among others, in their usual order."""
    given = set(names)
    return (*COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in given))


def drop_empty(columns: Columns) -> Columns:
    """Drop the optional columns without a value."""
    return {
        name: column
        for name, column in columns.items()
        if name not in OPTIONAL_COLUMNS or any(column)
    }


def lowered(texts: list[str]) -> list[str]:
    """Return the texts in lower case; most columns of labels are already, with few different."""
    if all(text == text.lower() for text in set(texts)):
        return texts
    return [text.lower() for text in texts]


def service_tiers(named: Sequence[str | None]) -> list[str]:
    """Return the service tiers with prices of their own; all others become empty."""
    if not any(named) or _PRICED_APART.isdisjoint(named):
        return [""] * len(named)
    return [tier if tier in _PRICED_APART else "" for tier in named]


def records_of(columns: Columns) -> list[UsageRecord]:
    """Return the records of the columns; optional values that are empty or 0 become absent.

    They are of the first version unless a call has a field of the second.
    """
    names = [name for name in RECORD_V2_FIELDS if name in columns]
    is_second = any(any(columns[name]) for name in names if name not in RECORD_FIELDS)
    struct = UsageRecordV2 if is_second else UsageRecord
    names = names if is_second else list(RECORD_FIELDS)
    values = [
        columns[name] if name in _ZERO_IS_A_VALUE else [value or None for value in columns[name]]
        for name in names
    ]
    values[0] = [EPOCH + timedelta(microseconds=ts) for ts in columns["ts"]]
    return [struct(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
