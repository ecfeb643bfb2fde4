"""The interface of an adapter, and the allowlist of its rows.

An adapter is a package with `ADAPTER`, beside its sample log, the records expected of it and its
documentation. `find_adapters` finds every package of this folder's rooms, so adding one touches
nothing else.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, Union

import msgspec

from detectors.contract import FIELD_NAME, LABEL_PATTERN, MAX_LABEL_LENGTH
from detectors.formats.adapters.calls import TOTALS, Sighting
from detectors.formats.adapters.rows import Row, parsed
from detectors.formats.problems import shown_name

State: TypeAlias = dict[str, Any]  # what an adapter remembers of the file so far
# What a member may hold: a name or number (None), counts at any depth, or members of its own.
Allowed: TypeAlias = Mapping[str, Union[None, str, "Allowed"]]

_RECONCILE: Final = " (upload it as a report, or run `tallystick reconcile`)"
_COUNTS: Final = "*"
_UNKNOWN: Final = "unknown"
_WORD: Final = re.compile(r"[\w$.@-]+\*?|[()]")
_LABEL: Final = re.compile(LABEL_PATTERN)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,63}")
_EMPTY: Final = (None, "", "{}", "[]", "null")


class Adapter(msgspec.Struct, frozen=True):
    """How to read the rows of one source.

    `signs` are members of which every row has one; `recognizes` decides about a row that does, by
    the names of its members. `read` yields a row's calls, or the reasons why there are none.
    `allowed` is what a row may have when it is uploaded or audited; `scrub` reads rows with
    anything else in them too. `repeats` are members with counts of calls that have rows of their
    own. `beside` reads what files beside a log say of all its rows, from the log's path.
    """

    title: str
    signs: tuple[str, ...]
    recognizes: Callable[[Row], bool]
    read: Callable[[Row, State], Iterable[Sighting | str]]
    allowed: Allowed
    sums: "Sums | None" = None
    repeats: frozenset[str] = frozenset()
    beside: Callable[[Path], State] = lambda _: {}


@dataclass(frozen=True)
class Sums:
    """Rows of a source that are totals of many calls, and what to export instead.

    `signs` are sets of members, of which such a row, or the object `within` it, has all of at least
    one. The service compares what is a report with the bill.
    """

    what: str
    signs: tuple[frozenset[str], ...]
    instead: str
    within: str = ""
    is_report: bool = False

    @property
    def reason(self) -> str:
        return f"{TOTALS}, of {self.what.removeprefix('the total of ')}: {self.instead}"

    def recognizes(self, row: Row) -> bool:
        if self.within:
            return row.mentions(self.within, *self.signs[0]) and self._has(row.inner(self.within))
        return self._has(row)

    def _has(self, row: Row) -> bool:
        return any(all(name in row for name in names) for names in self.signs)

    def refusal(self) -> str:
        how = _RECONCILE if self.is_report else ""
        return (
            f"This file is {self.what}, with totals instead of calls, which can reconcile a "
            f"bill{how} but not be audited: {self.instead}."
        )


def any_of(*sets: str) -> tuple[frozenset[str], ...]:
    """Return sets of names, each given as one text."""
    return tuple(frozenset(names.split()) for names in sets)


def members(text: str) -> Allowed:
    """Return the allowlist of a text such as `id usage(total) costs*`.

    A name alone may hold a number, a short text or a list of them; with a star, counts at any
    depth; with parentheses, members of its own or a list of such objects.
    """
    return _read_members(_WORD.findall(text))


def _read_members(words: list[str]) -> dict[str, None | str | Allowed]:
    found: dict[str, None | str | Allowed] = {}
    name = ""
    while words and (word := words.pop(0)) != ")":
        if word == "(":
            found[name] = _read_members(words)
        else:
            name = word.rstrip(_COUNTS)
            found[name] = _COUNTS if word.endswith(_COUNTS) else None
    return found


def unknown_members(row: Mapping[str, Any], allowed: Allowed, path: str = "") -> Iterator[str]:
    """Yield the names of members that may hold text; numbers and empty members cannot."""
    for key, value in row.items():
        if is_harmless(value):
            continue
        known = allowed.get(key, _UNKNOWN)
        if isinstance(known, Mapping):
            name, inner = path + _shown(key), parsed(value)
            for item in inner if isinstance(inner, list) else [inner]:
                if isinstance(item, dict):
                    yield from unknown_members(item, known, f"{name}.")
                elif not is_harmless(item):
                    yield name
        elif known is _UNKNOWN:  # before its text is decoded
            yield path + _shown(key)
        else:
            inner = parsed(value)
            if known == _COUNTS:
                is_allowed = _are_counts(inner)
            else:
                is_allowed = all(map(_is_label, inner if isinstance(inner, list) else [inner]))
            if not is_allowed:
                yield path + _shown(key)


def _shown(key: str) -> str:
    """Return a field name, also with the sign that some tools begin their own with."""
    is_name = key.startswith(("$", "@")) and FIELD_NAME.fullmatch(key[1:]) is not None
    return key if is_name else shown_name(key)


def is_harmless(value: Any) -> bool:
    """Check for a number or an empty member, neither of which can hold text."""
    return isinstance(value, int | float) or value in _EMPTY or value in ({}, [])


def _is_label(value: Any) -> bool:
    if not isinstance(value, str):
        return is_harmless(value)
    return len(value) <= MAX_LABEL_LENGTH and _LABEL.match(value) is not None


def _are_counts(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_are_counts, value.values()))
    if isinstance(value, list):
        return all(map(_are_counts, value))
    return is_harmless(value) or (isinstance(value, str) and _NAME.fullmatch(value) is not None)
