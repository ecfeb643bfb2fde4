"""Check columns for values that their types accept but the contract does not."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from detectors.contract import (
    LEVEL_DIGITS,
    LEVELS,
    LEVELS_OF_HASHES,
    MAX_COUNT,
    PARTS,
    UNITS,
    Part,
    UsageRecord,
    UsageRecordV2,
)
from detectors.formats.columns import (
    COLUMNS,
    COUNTS,
    HASHES,
    LABELS,
    OF_SOURCE,
    OPTIONAL_COUNTS,
    OPTIONAL_HASHES,
    OPTIONAL_LABELS,
    Columns,
    by_field,
    present_columns,
)
from detectors.formats.fields import LABEL_TEXT, LOG_RECORD, PROVIDER_TEXT, read_record
from detectors.formats.moments import FIRST_MICROSECOND, LAST_MICROSECOND
from detectors.formats.problems import Problem

# Of the levels of a call as one text.
_LENGTHS_OF_LEVELS = {LEVEL_DIGITS * count for count in range(len(LEVELS) + 1)}


def find_unclean_rows(columns: Columns, *, may_hold_control_characters: bool) -> set[int]:
    """Return the rows with values that their types accept but the contract does not.

    Each column is checked as a whole first, which is nearly free; only a column that fails is
    searched row by row. `None` means that a required value is missing.
    """
    providers = columns["provider"]
    bad = {provider for provider in set(providers) if not is_provider(provider)}
    rows = _find_outside(columns["ts"], LAST_MICROSECOND - 1, FIRST_MICROSECOND)
    rows |= _find_values(providers, bad)
    rows |= _find_bad_hashes(columns["prefix_hash"])
    for name in COUNTS:
        rows |= _find_outside(columns[name], MAX_COUNT)
    rows |= _find_values(columns["model"], {""})
    if may_hold_control_characters:
        for name in LABELS:
            rows |= _find_control_characters(columns[name])
    if columns.keys() - set(COLUMNS):
        rows |= _find_unclean_optional(columns, may_hold_control_characters)
    return rows


def _find_unclean_optional(columns: Columns, may_hold_control_characters: bool) -> set[int]:
    rows: set[int] = set()
    for name in columns.keys() & set(OPTIONAL_COUNTS):
        rows |= _find_outside(columns[name], MAX_COUNT)
    for name in columns.keys() & set(OPTIONAL_HASHES):
        rows |= _find_bad_hashes(columns[name])
    if may_hold_control_characters:
        for name in columns.keys() & set(OPTIONAL_LABELS):
            rows |= _find_control_characters(columns[name])
    for part in PARTS:
        if part.name in columns:
            beside = columns.get(part.beside) or [0] * len(columns[part.name])
            counts = zip(columns[part.name], beside, columns[part.total], strict=True)
            rows |= {
                row
                for row, (own, other, total) in enumerate(counts)
                if own and own + other > (total or 0)
            }
    if HASHES in columns:
        texts = columns[HASHES]
        if not set(map(len, texts)) <= _LENGTHS_OF_LEVELS or not are_levels(texts):
            rows |= {
                row
                for row, text in enumerate(texts)
                if len(text) not in _LENGTHS_OF_LEVELS or not are_levels([text])
            }
        for name, level in LEVELS_OF_HASHES.items():
            if any(columns.get(name) or ()):
                place = slice(level * LEVEL_DIGITS, (level + 1) * LEVEL_DIGITS)
                both = enumerate(zip(texts, columns[name], strict=True))
                rows |= {row for row, (text, own) in both if is_other(own, text[place])}
    units = [name for name in UNITS if name in columns]
    found = {row for name in units for row, value in enumerate(columns[name]) if value}
    return rows | {row for row in found if isinstance(_read_row(columns, row), list)}


def is_other(own: str | None, level: str) -> bool:
    """Check whether a hash is not that of this level, where both are given."""
    return own is not None and "" not in (own, level) and own[:LEVEL_DIGITS].lower() != level


def have_excess(records: Sequence[UsageRecordV2], part: Part) -> bool:
    counts = list(map(attrgetter(part.name), records))
    if not any(counts):
        return False
    return any(
        own and own + _count(record, part.beside) > _count(record, part.total)
        for own, record in zip(counts, records, strict=True)
    )


def _count(record: UsageRecordV2, name: str) -> int:
    return (getattr(record, name) or 0) if name else 0


def _find_values(column: list[Any], wrong: set[Any]) -> set[int]:
    if wrong.isdisjoint(column):
        return set()
    return {row for row, value in enumerate(column) if value in wrong}


def _find_outside(values: list[Any], most: int, least: int = 0) -> set[int]:
    """Return the rows without a number, or with one outside; no type accepts one below zero."""
    try:
        if not values or (max(values) <= most and (not least or min(values) >= least)):
            return set()
    except TypeError:  # some are missing
        pass
    return {row for row, each in enumerate(values) if each is None or not least <= each <= most}


def _find_bad_hashes(hashes: list[str]) -> set[int]:
    if not any(hashes) or are_prefix_hashes([text for text in hashes if text]):
        return set()
    return {row for row, text in enumerate(hashes) if text and not are_prefix_hashes([text])}


def _find_control_characters(texts: list[str]) -> set[int]:
    if not has_control_characters(texts):
        return set()
    return {row for row, text in enumerate(texts) if has_control_characters((text,))}


def find_problems(columns: Columns, row: int, names: Mapping[str, str]) -> list[Problem]:
    """Return the problems of an unclean row; `names` maps columns to their names in the log."""
    found = _read_row(columns, row)
    problems = [] if isinstance(found, UsageRecord) else found  # the same rules rejected it
    return [problem._replace(field=names.get(problem.field, problem.field)) for problem in problems]


def _read_row(columns: Columns, row: int) -> UsageRecord | list[Problem]:
    own = by_field({name: [columns[name][row]] for name in present_columns(columns)})
    values = {name: value for name, (value,) in own.items() if value not in (None, "")}
    values = {name: value for name, value in values.items() if name not in OF_SOURCE}
    if "ts" in values:
        values["ts"] //= 1_000_000
    return read_record(values, LOG_RECORD)


def has_control_characters(texts: Iterable[str]) -> bool:
    return LABEL_TEXT.match("".join(texts)) is None


def is_provider(text: str) -> bool:
    return PROVIDER_TEXT.match(text) is not None


def are_levels(texts: Iterable[str]) -> bool:
    """Check that levels of the right length have lowercase hexadecimal digits alone."""
    digits = "".join(texts)
    try:
        # `fromhex` skips spaces, and then bytes are missing.
        return digits == digits.lower() and 2 * len(bytes.fromhex(digits)) == len(digits)
    except ValueError:
        return False


def are_prefix_hashes(texts: list[str]) -> bool:
    try:
        # `fromhex` skips spaces between digits, and then bytes are missing.
        return len(bytes.fromhex("".join(texts))) == 32 * len(texts)
    except ValueError:
        return False
