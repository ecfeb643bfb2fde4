"""The record's fields: how to read a value of each, and what a valid value is.

The only definition of a valid value, for batches, log lines, CSV cells and frames. Readers decode
by type first and use this module only for values that the typed decoder rejects.
"""

import re
from collections.abc import Callable, Collection, Mapping
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
    STATUSES,
    UsageRecord,
    UsageRecordV2,
)
from detectors.formats.moments import read_any_moment, read_instant, read_moment
from detectors.formats.problems import Problem

STANDARD_TIER: Final = "standard"
SERVICE_TIERS: Final = ("batch", "flex", "priority", "fast")  # those with prices of their own

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


def read_status(value: object) -> str:
    if value not in STATUSES:
        raise ValueError
    return str(value)


def read_service_tier(value: object) -> str:
    if value not in SERVICE_TIERS and value != STANDARD_TIER:
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

RECORD: Final[Mapping[str, Field]] = {
    "ts": INSTANT,
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
    "prompt_tokens": COUNT,
    "completion_tokens": COUNT,
    "cached_tokens": COUNT,
    "cache_write_tokens": COUNT,
    "latency_ms": Field(read_latency, f"a number from 0 to {MAX_LATENCY_MS:.0f}"),
    "endpoint": LABEL,
    "request_id": LABEL,
    "tag": LABEL,
    "declared_max_tokens": COUNT,
    "prefix_hash": PREFIX_HASH,
}
RECORD_V2: Final[Mapping[str, Field]] = {
    **RECORD,
    "service_tier": Field(
        read_service_tier,
        f"one of {', '.join((STANDARD_TIER, *SERVICE_TIERS))}",
        is_text=True,
    ),
    "cache_write_1h_tokens": COUNT,
    "reasoning_tokens": COUNT,
    "audio_prompt_tokens": COUNT,
    "audio_completion_tokens": COUNT,
    "image_prompt_tokens": COUNT,
    "image_completion_tokens": COUNT,
    "web_searches": COUNT,
    "prefix_hash_16k": PREFIX_HASH,
    "prefix_hash_64k": PREFIX_HASH,
    "environment": LABEL,
    "session_id": LABEL,
    "status": Field(read_status, f"one of {', '.join(STATUSES)}", is_text=True),
    "region": LABEL,
}
# Logs write times and providers in more ways, and name tiers that have no price of their own. What
# `scrub` writes may have a mark that no other record has.
LOG_RECORD: Final[Mapping[str, Field]] = {
    **RECORD_V2,
    "ts": MOMENT,
    "provider": RECORD["provider"]._replace(read=read_any_provider),
    "service_tier": LABEL,
    "input_assumed": Field(read_mark, "1"),
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
