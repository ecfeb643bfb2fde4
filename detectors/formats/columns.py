"""Calls as columns, which every reader returns.

A column is a plain list with one entry per call. Absent values are the empty string or 0, so
absent, null, "" and 0 are equal from here on; only `latency_ms` and `reported_usd` keep nulls.
`ts` is microseconds since 1970 in UTC. Of the service tiers only those with prices of their own are
kept. Each unit of `units` is a column of its own, and the levels of `prefix_hashes` are one text.

`COLUMNS` always exist. A column of `OPTIONAL_COLUMNS`, the other fields of the second version of
the record and of a stored one, exists only where some call has a value, so that ordinary logs cost
nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final

from detectors.contract import (
    LEVEL_DIGITS,
    RECORD_FIELDS,
    RECORD_V2_FIELDS,
    SECONDS,
    STORED_FIELDS,
    UNITS,
    V1_FIELDS,
    UsageRecord,
    UsageRecordV2,
    names_of,
)
from detectors.formats.json_logs.usage.reader import STANDARD_TIERS, tier_of, unknown_tier
from detectors.formats.moments import EPOCH, MICROSECOND

Columns = dict[str, list[Any]]

LABELS: Final = names_of(V1_FIELDS, "provider", "model", "label")
COUNTS: Final = names_of(V1_FIELDS, "count")
COLUMNS: Final = ("ts", *LABELS, "prefix_hash", *COUNTS, "latency_ms", "service_tier")
_OPTIONAL: Final = tuple(field for field in STORED_FIELDS if field.name not in COLUMNS)
OPTIONAL_COUNTS: Final = (*names_of(_OPTIONAL, "count"), *UNITS)
OPTIONAL_HASHES: Final = names_of(_OPTIONAL, "hash")
OPTIONAL_LABELS: Final = names_of(_OPTIONAL, "label", "choice")
# People write these, on systems that compose accents and on others that don't: they are compared
# in Unicode's composed form (NFC).
WRITTEN_LABELS: Final = ("endpoint", "tag", "environment", "session_id")
ASSUMED: Final = "input_assumed"
UNKNOWN: Final = "unknown_fields"
UNKNOWN_LARGEST: Final = "unknown_largest"
# What is known of a record's source, and is no part of the call.
OF_SOURCE: Final = (ASSUMED, UNKNOWN, UNKNOWN_LARGEST)
REPORTED: Final = "reported_usd"
HASHES: Final = "prefix_hashes"
BILLING: Final = "billing"
# Units are columns of their own, since most logs with units have one or two of them.
_EXPANDED: Final = {"units": UNITS}
OPTIONAL_COLUMNS: Final = tuple(
    name for field in _OPTIONAL for name in _EXPANDED.get(field.name, (field.name,))
)
OPTIONAL_NUMBERS: Final = (*OPTIONAL_COUNTS, ASSUMED)
OPTIONAL_FLOATS: Final = (*SECONDS, REPORTED)
# The columns that a table of calls may have: CSV, or a frame.
TABLE_FIELDS: Final = tuple(
    name for field in RECORD_V2_FIELDS for name in _EXPANDED.get(field, (field,))
)
# Labels that repeat and that rules only compare, so that numbers replace them.
NUMBERED_LABELS: Final = ("prefix_hash", *OPTIONAL_HASHES, "session_id")
_EMPTY: Final[dict[str, Any]] = {
    **dict.fromkeys((*COUNTS, *OPTIONAL_NUMBERS), 0),
    **dict.fromkeys(("latency_ms", REPORTED)),
}
_ZERO_IS_A_VALUE: Final = ("prompt_tokens", "completion_tokens", "latency_ms", REPORTED)
_STANDARD_TIERS: Final = STANDARD_TIERS | {None}


def columns_of(records: Sequence[UsageRecord]) -> Columns:
    columns: Columns = {"ts": [(record.ts - EPOCH) // MICROSECOND for record in records]}
    for name in (*LABELS, "prefix_hash", *COUNTS, "latency_ms"):
        values, empty = list(map(attrgetter(name), records)), empty_value(name)
        columns[name] = values if empty is None else [value or empty for value in values]
    columns |= tier_columns([getattr(record, "service_tier", None) for record in records])
    kinds = set(map(type, records))
    for field in () if kinds <= {UsageRecord} else _OPTIONAL:
        name = field.name
        if kinds <= {UsageRecordV2} and name not in OF_SOURCE:
            values = list(map(attrgetter(name), records))
        else:
            values = [getattr(record, name, None) for record in records]
        columns |= optional_columns(name, values)
    return columns


def optional_columns(name: str, values: Sequence[Any]) -> Columns:
    if not _have_value(name, values):
        return {}
    if name == "units":
        named = {unit for units in values if units for unit in units}
        return drop_empty(
            {
                unit: [(units or {}).get(unit, 0) for units in values]
                for unit in UNITS
                if unit in named
            }
        )
    if name == HASHES:
        return {name: ["".join(levels or ()) for levels in values]}
    empty = empty_value(name)
    return {name: [empty if value is None else value for value in values]}


def by_field(columns: Columns) -> Columns:
    """Return the columns by the record's fields, with units and levels together again."""
    units = [unit for unit in UNITS if unit in columns]
    fields = {name: column for name, column in columns.items() if name not in units}
    if units:
        rows = zip(*(columns[unit] for unit in units), strict=True)
        fields["units"] = [
            {unit: amount for unit, amount in zip(units, row, strict=True) if amount} or None
            for row in rows
        ]
    if HASHES in columns:
        fields[HASHES] = [
            [text[start : start + LEVEL_DIGITS] for start in range(0, len(text), LEVEL_DIGITS)]
            or None
            for text in columns[HASHES]
        ]
    return fields


def empty_value(name: str) -> Any:
    """Return what a column has for a call without a value."""
    return _EMPTY.get(name, "")


def _have_value(name: str, values: Sequence[Any]) -> bool:
    """Check for a value; that a source reports no cost is one."""
    return values.count(None) < len(values) if name == REPORTED else any(values)


def present_columns(names: Iterable[str]) -> tuple[str, ...]:
    given = set(names)
    return (*COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in given))


def drop_empty(columns: Columns) -> Columns:
    return {
        name: column
        for name, column in columns.items()
        if name not in OPTIONAL_COLUMNS or _have_value(name, column)
    }


def lowered(texts: list[str]) -> list[str]:
    """Return the texts in lower case; most columns of labels are already, with few different."""
    if all(text == text.lower() for text in set(texts)):
        return texts
    return [text.lower() for text in texts]


def tier_columns(named: Sequence[str | None]) -> Columns:
    """Return the tiers with prices of their own, others empty, and the names of unknown ones."""
    tiers = set(named)
    if tiers <= _STANDARD_TIERS:
        return {"service_tier": [""] * len(named)}
    known = {tier: tier_of(tier) or "" for tier in tiers}
    unknown = {tier: unknown_tier(tier) or "" for tier in tiers}
    columns = {"service_tier": [known[tier] for tier in named]}
    if any(unknown.values()):
        columns[UNKNOWN] = [unknown[tier] for tier in named]
    return columns


def records_of(columns: Columns) -> list[UsageRecord]:
    """Return the records of the columns; optional values that are empty or 0 become absent.

    They are of the first version unless a call has a field of the second.
    """
    given = by_field(columns)
    names = [name for name in RECORD_V2_FIELDS if name in given]
    is_second = any(_have_value(name, given[name]) for name in names if name not in RECORD_FIELDS)
    struct = UsageRecordV2 if is_second else UsageRecord
    names = names if is_second else list(RECORD_FIELDS)
    values = [
        given[name] if name in _ZERO_IS_A_VALUE else [value or None for value in given[name]]
        for name in names
    ]
    values[0] = [EPOCH + timedelta(microseconds=ts) for ts in columns["ts"]]
    return [struct(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
