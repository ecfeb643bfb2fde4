"""What is wrong with submitted data, in words that never repeat a value.

A stranger's field name is repeated only where it looks like a name; nothing else of the input
reaches a message.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

from detectors.contract import FIELD_NAME, RECORD_FIELDS
from detectors.errors import ContractError

MAX_OFFENDERS: Final = 10
NEVER_ACCEPTED: Final = "content is never accepted"
COUNTS_UNDER_USAGE: Final = (
    "in JSON lines the counts stand under usage; the record's own names head the columns of a CSV"
)


class Problem(NamedTuple):
    """One field and what is wrong with it; `field` is safe to print."""

    kind: Literal["unknown", "missing", "bad"]
    field: str
    expected: str = ""


class Offender(NamedTuple):
    """A problem and where it is: `record 3`, `line 7`."""

    where: str
    problem: Problem


def unknown(name: str) -> Problem:
    return Problem("unknown", name)


def missing(name: str) -> Problem:
    return Problem("missing", name)


def bad(name: str, expected: str) -> Problem:
    return Problem("bad", name, expected)


def shown_name(key: object, otherwise: str = "a key that is no field name") -> str:
    """The key where it looks like a field name, else words that stand for it."""
    return key if isinstance(key, str) and FIELD_NAME.fullmatch(key) else otherwise


def describe(problems: Iterable[Problem]) -> str:
    """All problems of one place in one phrase: `unknown fields a, b; missing field model`."""
    listed = list(problems)
    parts = []
    for kind, word in (("unknown", "unknown"), ("missing", "missing")):
        names = list(dict.fromkeys(p.field for p in listed if p.kind == kind))
        if names:
            parts.append(f"{word} field{'s' if len(names) > 1 else ''} {', '.join(names)}")
    parts += [f"{p.field} must be {p.expected}" for p in listed if p.kind == "bad"]
    return "; ".join(parts)


def contract_error(offenders: Sequence[Offender], more: str = "") -> ContractError:
    """The error naming the first ten offenders; `more` says what else there is."""
    named = offenders[:MAX_OFFENDERS]
    left_out = len(offenders) - len(named)
    texts = tuple(
        f"{where}: {describe(offender.problem for offender in group)}"
        for where, group in groupby(named, key=lambda offender: offender.where)
    )
    parts = list(texts)
    if left_out:
        parts.append(more or f"and {left_out} more")
    unknown_fields = {o.problem.field for o in offenders if o.problem.kind == "unknown"}
    if unknown_fields & set(RECORD_FIELDS):
        parts.append(COUNTS_UNDER_USAGE)
    if unknown_fields:
        parts.append(NEVER_ACCEPTED)
    return ContractError("; ".join(parts), texts)
