"""The record's fields: how to read a value of each, and what a valid value is.

The only definition of a valid value, for batches, log lines, CSV cells and frames. Readers decode
by type first and use this module only for values that the typed decoder rejects.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from detectors.contract import (
    FIELDS_OF_UNITS,
    LABEL_PATTERN,
    LEVEL_DIGITS,
    LEVELS,
    LEVELS_OF_HASHES,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    MAX_REPORTED_USD,
    MAX_UNITS,
    PARTS,
    PREFIX_HASH_PATTERN,
    PROVIDER_PATTERN,
    REQUIRED_FIELDS,
    SECONDS,
    STORED_FIELDS,
    UNITS,
    V1_FIELDS,
    V2_FIELDS,
    RecordField,
    UsageRecord,
    UsageRecordV2,
    find_excess,
)
from detectors.formats.moments import read_any_moment, read_instant, read_moment
from detectors.formats.problems import Problem, shown_name

# Those after the first have prices of their own.
STANDARD_TIER, *_TIERS = next(each.choices for each in V2_FIELDS if each.name == "service_tier")
SERVICE_TIERS: Final = tuple(_TIERS)

LABEL_TEXT: Final = re.compile(LABEL_PATTERN)
PROVIDER_TEXT: Final = re.compile(PROVIDER_PATTERN)
_PREFIX_HASH: Final = re.compile(PREFIX_HASH_PATTERN)
_LEVEL: Final = re.compile(rf"^[0-9a-f]{{{LEVEL_DIGITS}}}\Z")
_WORD_PATTERN: Final = r"^[a-z0-9_]{1,40}\Z"
_WORD: Final = re.compile(_WORD_PATTERN)
# A constant of a provider's API, such as `end_turn`: too little to hold text.
Word = Annotated[str, Meta(pattern=_WORD_PATTERN)]


def _only(accepts: Callable[[Any], object]) -> Callable[[object], Any]:
    """Return what reads the values that a check accepts, and raises `ValueError` for others."""

    def read(value: object) -> object:
        if not accepts(value):
            raise ValueError
        return value

    return read


def _is_number(most: float, value: object) -> bool:
    # Compared before it is converted, because an integer beyond the range of floats overflows.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _number_to(most: float) -> "Field":
    read = _only(partial(_is_number, most))
    return Field(lambda value: float(read(value)), f"a number from 0 to {most:.0f}")


def _is_label(value: object) -> bool:
    if not isinstance(value, str) or len(value) > MAX_LABEL_LENGTH:
        return False
    return LABEL_TEXT.match(value) is not None


def _matching(pattern: re.Pattern[str]) -> Callable[[object], Any]:
    return _only(lambda value: isinstance(value, str) and pattern.match(value))


class UnitsError(ValueError):
    """Some units of a record are wrong."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = problems


def read_units(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping) or len(value) > MAX_UNITS:
        raise ValueError
    problems, read = list[Problem](), dict[str, float]()
    for key, amount in value.items():
        field = UNIT_FIELDS.get(key)
        if field is None:
            name = shown_name(key, "")
            shown = f"units.{name}" if name else "a key that is not a field name in units"
            problems.append(Problem("unknown", shown))
            continue
        try:
            read[key] = field.read(amount)  # type: ignore[assignment]
        except (ValueError, OverflowError):
            problems.append(Problem("bad", f"units.{key}", field.expected))
    if problems:
        raise UnitsError(problems)
    return read


def read_levels(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= len(LEVELS):
        raise ValueError
    if not all(isinstance(text, str) and _LEVEL.match(text) for text in value):
        raise ValueError
    return list(value)


class Field(NamedTuple):
    """How to read a field's value, and the description of a valid value."""

    read: Callable[[object], object]
    expected: str
    is_text: bool = False
    is_list: bool = False


COUNT: Final = Field(
    _only(lambda value: type(value) is int and 0 <= value <= MAX_COUNT),
    f"an integer from 0 to {MAX_COUNT:,}",
)
LABEL: Final = Field(
    _only(_is_label),
    f"a string of at most {MAX_LABEL_LENGTH} characters without control characters",
    is_text=True,
)
INSTANT: Final = Field(read_instant, "an ISO 8601 time from 2000 to 2100")
MOMENT: Final = Field(
    read_moment, "an ISO 8601 time, or a Unix time as a number, from 2000 to 2100"
)
ANY_MOMENT: Final = MOMENT._replace(read=read_any_moment)

WORD: Final = Field(_matching(_WORD), "a word of at most 40 lowercase letters, digits, underscores")
PREFIX_HASH: Final = Field(_matching(_PREFIX_HASH), "64 hexadecimal digits", is_text=True)

SECONDS_OF_UNIT: Final = Field(
    _only(partial(_is_number, MAX_COUNT)), f"a number from 0 to {MAX_COUNT:,}"
)
# Units by the price book's names; those that a field of the record counts are never accepted.
UNIT_FIELDS: Final[Mapping[object, Field]] = {
    **{unit: SECONDS_OF_UNIT if unit in SECONDS else COUNT for unit in UNITS},
    **{
        unit: Field(_only(lambda _: False), f"given as {field}")
        for unit, field in FIELDS_OF_UNITS.items()
    },
}
_KINDS: Final[Mapping[str, Field]] = {
    "instant": INSTANT,
    "provider": Field(
        _matching(PROVIDER_TEXT),
        "a lowercase label of at most 64 letters, digits, dots, dashes, underscores",
        is_text=True,
    ),
    "model": Field(
        _only(lambda value: value and _is_label(value)),
        f"a string of 1 to {MAX_LABEL_LENGTH} characters without control characters",
        is_text=True,
    ),
    "count": COUNT,
    "latency": _number_to(MAX_LATENCY_MS),
    "label": LABEL,
    "hash": PREFIX_HASH,
    "usd": _number_to(MAX_REPORTED_USD),
    "hashes": Field(
        read_levels,
        f"1 to {len(LEVELS)} strings of {LEVEL_DIGITS} lowercase hexadecimal digits",
        is_list=True,
    ),
    "units": Field(
        read_units, f"an object of at most {MAX_UNITS} numbers, by the price book's names of units"
    ),
    "mark": Field(_only(lambda value: type(value) is int and value == 1), "1"),
}


def _field_of(field: RecordField) -> Field:
    if field.kind in _KINDS:
        return _KINDS[field.kind]
    read = _only(lambda value: value in field.choices)
    return Field(read, f"one of {', '.join(field.choices)}", is_text=True)


RECORD: Final[Mapping[str, Field]] = {field.name: _field_of(field) for field in V1_FIELDS}
RECORD_V2: Final[Mapping[str, Field]] = {field.name: _field_of(field) for field in V2_FIELDS}
# Logs write times and providers in more ways, and name tiers that have no price of their own. What
# `scrub` writes may have a mark that no other record has.
LOG_RECORD: Final[Mapping[str, Field]] = {
    **{field.name: _field_of(field) for field in STORED_FIELDS},
    "ts": MOMENT,
    "provider": RECORD["provider"]._replace(
        read=lambda value: RECORD["provider"].read(
            value.lower() if isinstance(value, str) else value
        )
    ),
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
        except UnitsError as error:
            problems += error.problems
        except (ValueError, OverflowError):
            problems.append(Problem("bad", name, fields[name].expected))
    problems += find_contradictions(read, {problem.field for problem in problems})
    if problems:
        return problems
    return (UsageRecord if fields is RECORD else UsageRecordV2)(**read)


def find_contradictions(read: Mapping[str, Any], bad: Collection[str] = ()) -> list[Problem]:
    """Return the problems of values that don't fit others, if those are not bad.

    These are parts that exceed their total, and hashes of the same prefix that differ.
    """
    counts = {name: value for name, value in read.items() if type(value) is int}
    problems = [
        Problem("bad", part.name, part.expected)
        for part in PARTS
        if counts.get(part.name)
        and part.total not in bad
        and counts[part.name] + counts.get(part.beside, 0) > counts.get(part.total, 0)
    ]
    if read.get("units"):
        problems += [
            excess_of(unit, total)
            for unit, total in find_excess(counts, read["units"])
            if total not in bad
        ]
    levels = read.get("prefix_hashes")
    if levels:
        for name, level in LEVELS_OF_HASHES.items():
            text = read.get(name)
            if text and level < len(levels) and text[:LEVEL_DIGITS].lower() != levels[level]:
                problems.append(other_hash(name))
    return problems


def excess_of(unit: str, total: str) -> Problem:
    """Return the problem of a unit that exceeds what a total leaves for it."""
    whole = f"units.{total}" if total in UNITS else total
    return Problem("bad", f"units.{unit}", f"at most {whole} less its other parts")


def other_hash(name: str) -> Problem:
    """Return the problem of levels that differ from another hash of the same prefix."""
    level = LEVELS_OF_HASHES[name] + 1
    expected = f"the beginning of the other hashes: level {level} is that of {name}"
    return Problem("bad", "prefix_hashes", expected)
