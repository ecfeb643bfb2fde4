"""The problems of each row of a caller's dataframe, as numbers.

A number has a digit in base 3 for each column: 1 for a bad value; 2 for a missing one or, in an
optional column, for a part that exceeds its total. Values that contradict others have digits of
their own. One number of 64 bits is enough for all columns but those of a frame with many units.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import add, and_, or_
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from detectors.contract import (
    LEVEL_DIGITS,
    LEVELS_OF_HASHES,
    MAX_UNITS,
    PARTS,
    REQUIRED_FIELDS,
    SHARES,
    UNITS,
)
from detectors.engine.levels import number_hashes
from detectors.formats.columns import COLUMNS, HASHES, present_columns
from detectors.formats.fields import LOG_RECORD, UNIT_FIELDS, excess_of, other_hash
from detectors.formats.problems import Problem, describe

_DIGITS: Final = 39  # in base 3, of an integer of 64 bits
_PARTS: Final = {part.name: part for part in PARTS}
_NONE: Final = pl.lit(0, pl.Int64)
# What `CheckedColumn` has for problems that a column can't have; no digit is computed for these.
NEVER: Final = pl.lit(value=False)


class CheckedColumn(msgspec.Struct, frozen=True):
    """A column's value in the schema of calls, and which rows are bad or missing.

    The levels of hashes may be `numbers` in other columns.
    """

    value: pl.Expr
    is_bad: pl.Expr
    is_missing: pl.Expr
    numbers: Sequence[str] = ()


Columns = Mapping[str, CheckedColumn]


class _Contradiction(NamedTuple):
    """What columns of a frame may say against each other."""

    problem: Problem
    is_so: Callable[[Columns], pl.Expr]


def encode(columns: Columns) -> list[pl.Expr]:
    names = list(columns)
    digits = list[pl.Expr]()
    for name, column in columns.items():
        if column.is_bad is NEVER and column.is_missing is NEVER and name not in _PARTS:
            digits.append(_NONE)
            continue
        is_two = column.is_missing
        if part := _PARTS.get(name):
            total = columns[part.total]
            beside = columns[part.beside].value if part.beside in columns else _NONE
            is_over = (column.value > 0) & (column.value + beside > total.value)
            is_two = is_over & ~(total.is_bad | total.is_missing)
        two = pl.when(is_two).then(pl.lit(2, pl.Int64))
        digits.append(two.otherwise(_as_digit(column.is_bad)))
    digits += [_as_digit(each.is_so(columns)) for each in _find_contradictions(names)]
    return [
        sum(
            (digit * 3**place for place, digit in enumerate(some) if digit is not _NONE), _NONE
        ).alias(name)
        for name, some in zip(problem_columns(names), _in_numbers(digits), strict=True)
    ]


def problem_columns(names: Iterable[str]) -> list[str]:
    """Return the names of the numbers of a frame with these columns, or of its checked calls."""
    own = _columns_of(names)
    return [
        f"problems_{number}"
        for number, _ in enumerate(_in_numbers([*own, *_find_contradictions(own)]))
    ]


def is_invalid(problems: Sequence[str]) -> pl.Expr:
    return reduce(or_, (pl.col(name) > 0 for name in problems))


def describe_problems(row: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return the reason for the numbers of a row, empty for a valid one.

    `known` are the columns of the checked calls.
    """
    names = _columns_of(known)
    digits = [
        row[name] // 3**place % 3 for name in problem_columns(names) for place in range(_DIGITS)
    ]
    states = dict(zip(names, digits, strict=False))
    found = [Problem("missing", name) for name in REQUIRED_FIELDS if states[name] == 2]
    for name in names:
        if states[name] == 1:
            field = UNIT_FIELDS[name] if name in UNITS else LOG_RECORD[name]
            shown = f"units.{name}" if name in UNITS else name
            found.append(Problem("bad", shown, field.expected))
    found += [
        Problem("bad", name, part.expected)
        for name, part in _PARTS.items()
        if states.get(name) == 2
    ]
    others = zip(_find_contradictions(names), digits[len(names) :], strict=False)
    return describe([*found, *(each.problem for each, digit in others if digit)])


def _columns_of(names: Iterable[str]) -> list[str]:
    given = set(names)
    return [name for name in present_columns(given) if name in given or name in COLUMNS]


def _in_numbers(digits: Sequence[Any]) -> list[Sequence[Any]]:
    return [digits[start : start + _DIGITS] for start in range(0, len(digits), _DIGITS)]


def _as_digit(condition: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(pl.lit(1, pl.Int64)).otherwise(_NONE)


def _find_contradictions(names: Collection[str]) -> list[_Contradiction]:
    units = [name for name in names if name in UNITS]
    found = [
        _Contradiction(excess_of(unit, total), partial(_exceeds, unit, total, parts))
        for total, parts in (SHARES if units else ())
        for unit in parts
        if unit in units and (total in units or total not in UNITS)
    ]
    if len(units) > MAX_UNITS:
        problem = Problem("bad", "units", LOG_RECORD["units"].expected)
        found.append(_Contradiction(problem, partial(_are_many, units)))
    if HASHES in names:
        others = [name for name in LEVELS_OF_HASHES if name in names]
        found += [_Contradiction(other_hash(name), partial(_differs, name)) for name in others]
    return found


def _exceeds(unit: str, total: str, parts: Sequence[str], columns: Columns) -> pl.Expr:
    """Check whether the parts exceed the total, and this unit is the last of them."""
    given = [columns[part].value for part in parts if part in columns]
    later = [each for each in parts[parts.index(unit) + 1 :] if each in columns and each in UNITS]
    whole = columns[total].value if total in columns else _NONE
    is_over = (columns[unit].value > 0) & (reduce(add, given) > whole)
    if total in UNITS:
        is_over = is_over & (whole > 0)
    elif total in columns:
        is_over = is_over & ~(columns[total].is_bad | columns[total].is_missing)
    return reduce(and_, (columns[other].value == 0 for other in later), is_over)


def _are_many(units: Sequence[str], columns: Columns) -> pl.Expr:
    counted = ((columns[unit].value > 0).cast(pl.Int64) for unit in units)
    return reduce(add, counted) > MAX_UNITS


def _differs(name: str, columns: Columns) -> pl.Expr:
    """Check whether a hash and the levels differ, where both have its level."""
    place, levels = LEVELS_OF_HASHES[name], columns[HASHES]
    own = columns[name].value.cast(pl.String).str.slice(0, LEVEL_DIGITS)
    if levels.numbers:
        level = pl.col(levels.numbers[place]) if place < len(levels.numbers) else _NONE
        number = number_hashes(own)
        return (level > 0) & (number > 0) & (level != number)
    level = levels.value.str.slice(place * LEVEL_DIGITS, LEVEL_DIGITS)
    return (level != "") & (own != "") & (level != own)
