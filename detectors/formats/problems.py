"""Problems of submitted data, described without repeating a value.

A field name of the input is repeated only if it looks like a name; nothing else of the input
reaches a message.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final, Literal, NamedTuple

from detectors.contract import FIELD_NAME, RECORD_FIELDS, RECORD_V2_FIELDS
from detectors.errors import ContractError

MAX_OFFENDERS: Final = 10
# Of one record: a hundred unknown fields, and each known field besides.
MAX_NAMES: Final = 100 + len(RECORD_V2_FIELDS)
_COUNTS_UNDER_USAGE: Final = (
    "In JSON Lines, token counts go under usage; the record's own field names are for CSV columns."
)
_FILE_UNITS: Final = frozenset({"line", "object"})


class Problem(NamedTuple):
    kind: Literal["unknown", "missing", "bad"]
    field: str
    expected: str = ""


class Offender(NamedTuple):
    where: str
    problem: Problem


def shown_name(key: object, otherwise: str = "a key that is not a field name") -> str:
    """Return the key if it looks like a field name, or else a description of it."""
    return key if isinstance(key, str) and FIELD_NAME.fullmatch(key) else otherwise


class Offenders:
    """Collects problems in order: all of the records that are named, and how many more there are.

    The first ten are named, and of the record that has the tenth up to `MAX_NAMES`. Memory does
    not depend on the number of problems.
    """

    def __init__(self) -> None:
        self.named: list[Offender] = []
        self.left_out = 0
        self.left_out_of_record = 0  # the last record that is named
        self._in_record = 0

    def add(self, where: str, problem: Problem) -> None:
        is_same = bool(self.named) and self.named[-1].where == where
        self._in_record = self._in_record + 1 if is_same else 1
        has_room = len(self.named) < MAX_OFFENDERS or (is_same and self._in_record <= MAX_NAMES)
        if self.left_out or not has_room:
            self.left_out += 1
            self.left_out_of_record += is_same
        else:
            self.named.append(Offender(where, problem))


def describe(problems: Iterable[Problem]) -> str:
    """Join the problems of one record: `unknown fields a, b; missing field model`."""
    listed = list(problems)
    parts = []
    for kind, word in (("unknown", "unknown"), ("missing", "missing")):
        names = list(dict.fromkeys(p.field for p in listed if p.kind == kind))
        if names:
            parts.append(f"{word} field{'s' if len(names) > 1 else ''} {', '.join(names)}")
    parts += dict.fromkeys(f"{p.field} must be {p.expected}" for p in listed if p.kind == "bad")
    return "; ".join(parts)


def contract_error(offenders: Offenders, more: str = "") -> ContractError:
    """Build the error that names the offenders; `more` replaces the count of the others.

    Unknown fields are grouped: `fields we never accept (messages, choices) on lines 1–5`.
    """
    named, left_out = offenders.named, offenders.left_out
    others = (more or f"and {left_out:,} more") if left_out else ""
    unknown_fields = [each for each in named if each.problem.kind == "unknown"]
    wrong_values = [each for each in named if each.problem.kind != "unknown"]
    parts = []
    if unknown_fields:
        names = ", ".join(dict.fromkeys(offender.problem.field for offender in unknown_fields))
        wheres = dict.fromkeys(tuple(offender.where.split(" ")) for offender in unknown_fields)
        unit, *of_one = next(iter(wheres))
        locations = f"in the {unit}"  # or `on line 3`, `on lines 1–5, 7`, `in record 0`
        if of_one:
            ranges: list[list[int]] = []
            for at in (int(where[1]) for where in wheres):
                if ranges and at == ranges[-1][-1] + 1:
                    ranges[-1].append(at)
                else:
                    ranges.append([at])
            shown = ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in ranges)
            preposition = "on" if unit == "line" else "in"
            locations = f"{preposition} {unit}{'s' if len(wheres) > 1 else ''} {shown}"
        if others and not wrong_values:
            locations += f" {others}"
        remedy = (
            "Remove them, or run `tallystick scrub`." if unit in _FILE_UNITS else "Remove them."
        )
        parts.append(
            f"Contains fields we never accept ({names}) {locations}: content is never accepted. "
            f"{remedy}"
        )
    if {each.problem.field for each in unknown_fields} & set(RECORD_FIELDS):
        parts.append(_COUNTS_UNDER_USAGE)
    if wrong_values:
        listed = "; ".join([*_by_location(wrong_values), *([others] if others else [])])
        parts.append(f"{listed[0].upper()}{listed[1:]}.")
    return ContractError(" ".join(parts), _by_location(named))


def _by_location(offenders: Iterable[Offender]) -> tuple[str, ...]:
    return tuple(
        f"{where}: {describe(offender.problem for offender in group)}"
        for where, group in groupby(offenders, key=lambda offender: offender.where)
    )


class ContractCheck:
    """Collects fields outside the contract until the error is complete.

    Lines after those that are named are not counted, so the message is the same however the log
    was split.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._offenders = Offenders()

    def add(self, unknown_fields: Iterable[tuple[int, str]], before: int = 0) -> None:
        for line, name in unknown_fields:
            self._offenders.add(f"{self._where} {before + line}", Problem("unknown", name))
        if self._offenders.left_out:
            self.close()

    def close(self) -> None:
        if self._offenders.named:
            of_record = self._offenders.left_out_of_record
            more = f"and at least {of_record:,} more" if of_record else "and more"
            raise contract_error(self._offenders, more)
