"""The record's fields: how to read a value of each, and what a valid value is.

The only definition of a valid value, for batches, log lines, CSV cells and frames. Readers decode
by type first and use this module only for values that the typed decoder rejects.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from detectors.contract import (
    LABEL_PATTERN,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    PARTS,
    PREFIX_HASH_PATTERN,
    PROVIDER_PATTERN,
    REQUIRED_FIELDS,
    STORED_FIELDS,
    V1_FIELDS,
    V2_FIELDS,
    RecordField,
    UsageRecord,
    UsageRecordV2,
)
from detectors.formats.moments import read_any_moment, read_instant, read_moment
from detectors.formats.problems import Problem

# Those after the first have prices of their own.
STANDARD_TIER, *_TIERS = next(each.choices for each in V2_FIELDS if each.name == "service_tier")
SERVICE_TIERS: Final = tuple(_TIERS)

LABEL_TEXT: Final = re.compile(LABEL_PATTERN)
PROVIDER_TEXT: Final = re.compile(PROVIDER_PATTERN)
_PREFIX_HASH: Final = re.compile(PREFIX_HASH_PATTERN)
_WORD_PATTERN: Final = r"^[a-z0-9_]{1,40}\Z"
_WORD: Final = re.compile(_WORD_PATTERN)
# A constant of a provider's API, such as `end_turn`: too little to hold text.
Word = Annotated[str, Meta(pattern=_WORD_PATTERN)]


def read_count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_COUNT:
        raise ValueError
    return value


def read_latency(value: object) -> float:
    # Compared before it is converted, because an integer beyond the range of floats overflows.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not 0 <= value <= MAX_LATENCY_MS:
        raise ValueError
    return float(value)


def read_label(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_LABEL_LENGTH or not LABEL_TEXT.match(value):
        raise ValueError
    return value


def read_word(value: object) -> str:
    if not isinstance(value, str) or not _WORD.match(value):
        raise ValueError
    return value


def read_model(value: object) -> str:
    label = read_label(value)
    if not label:
        raise ValueError
    return label


def read_provider(value: object) -> str:
    if not isinstance(value, str) or not PROVIDER_TEXT.match(value):
        raise ValueError
    return value


def read_any_provider(value: object) -> str:
    """Read a provider in any case, as logs write it."""
    return read_provider(value.lower() if isinstance(value, str) else value)


def read_prefix_hash(value: object) -> str:
    if not isinstance(value, str) or not _PREFIX_HASH.match(value):
        raise ValueError
    return value


def read_choice(choices: Collection[str], value: object) -> str:
    if value not in choices:
        raise ValueError
    return str(value)


def read_mark(value: object) -> int:
    if type(value) is not int or value != 1:
        raise ValueError
    return value


class Field(NamedTuple):
    """How to read a field's value, and the description of a valid value."""

    read: Callable[[object], object]
    expected: str
    is_text: bool = False


COUNT: Final = Field(read_count, f"an integer from 0 to {MAX_COUNT}")
LABEL: Final = Field(
    read_label,
    f"a string of at most {MAX_LABEL_LENGTH} characters without control characters",
    is_text=True,
)
INSTANT: Final = Field(read_instant, "an ISO 8601 time from 2000 to 2100")
MOMENT: Final = Field(
    read_moment, "an ISO 8601 time, or a Unix time as a number, from 2000 to 2100"
)
ANY_MOMENT: Final = MOMENT._replace(read=read_any_moment)

WORD: Final = Field(read_word, "a word of at most 40 lowercase letters, digits, underscores")
PREFIX_HASH: Final = Field(read_prefix_hash, "64 hexadecimal digits", is_text=True)

_KINDS: Final[Mapping[str, Field]] = {
    "instant": INSTANT,
    "provider": Field(
        read_provider,
        "a lowercase label of at most 64 letters, digits, dots, dashes, underscores",
        is_text=True,
    ),
    "model": Field(
        read_model,
        f"a string of 1 to {MAX_LABEL_LENGTH} characters without control characters",
        is_text=True,
    ),
    "count": COUNT,
    "latency": Field(read_latency, f"a number from 0 to {MAX_LATENCY_MS:.0f}"),
    "label": LABEL,
    "hash": PREFIX_HASH,
    "mark": Field(read_mark, "1"),
}


def _field_of(field: RecordField) -> Field:
    if field.kind in _KINDS:
        return _KINDS[field.kind]
    read = partial(read_choice, field.choices)
    return Field(read, f"one of {', '.join(field.choices)}", is_text=True)


RECORD: Final[Mapping[str, Field]] = {field.name: _field_of(field) for field in V1_FIELDS}
RECORD_V2: Final[Mapping[str, Field]] = {field.name: _field_of(field) for field in V2_FIELDS}
# Logs write times and providers in more ways, and name tiers that have no price of their own. What
# `scrub` writes may have a mark that no other record has.
LOG_RECORD: Final[Mapping[str, Field]] = {
    **{field.name: _field_of(field) for field in STORED_FIELDS},
    "ts": MOMENT,
    "provider": RECORD["provider"]._replace(read=read_any_provider),
    "service_tier": LABEL,
}


def read_record(
    values: Mapping[str, object], fields: Mapping[str, Field] = RECORD
) -> UsageRecord | list[Problem]:
    """Build a record of the version that has these fields, or list every problem of the values.

    The caller has checked that all keys are fields. An optional null is absent.
    """
    problems = [Problem("missing", name) for name in REQUIRED_FIELDS if name not in values]
    read: dict[str, Any] = {}
    for name in fields:
        if name not in values or (values[name] is None and name not in REQUIRED_FIELDS):
            continue
        try:
            read[name] = fields[name].read(values[name])
        except (ValueError, OverflowError):
            problems.append(Problem("bad", name, fields[name].expected))
    problems += _find_excess(read, {problem.field for problem in problems})
    if problems:
        return problems
    return (UsageRecord if fields is RECORD else UsageRecordV2)(**read)


def _find_excess(read: Mapping[str, object], bad: Collection[str]) -> list[Problem]:
    """Return the problems of parts that exceed their total, if that is not bad."""
    counts = {name: value for name, value in read.items() if type(value) is int}
    return [
        Problem("bad", part.name, part.expected)
        for part in PARTS
        if counts.get(part.name)
        and part.total not in bad
        and counts[part.name] + counts.get(part.beside, 0) > counts.get(part.total, 0)
    ]
