"""Allowlists of JSON objects, derived from the structs that the fast decoders use.

A line that the typed decoder rejects is examined here key by key: a key outside the allowlist, at
any depth, breaks the contract; a known key with a wrong value only makes the row invalid.
"""

import types
from collections.abc import Mapping
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from detectors.contract import FIELD_NAME, MAX_UNITS
from detectors.formats.fields import (
    ANY_MOMENT,
    COUNT,
    LABEL,
    LOG_RECORD,
    UNIT_FIELDS,
    WORD,
    Field,
    Word,
)
from detectors.formats.problems import MAX_NAMES, Problem

NO_NAME: Final = "a key that is not a field name"


class Shape(msgspec.Struct, frozen=True):
    """The keys that an object may have, and what each may contain."""

    members: Mapping[str, "Member"]
    required: tuple[str, ...]
    most: int | None = None  # members at once


class Null(msgspec.Struct, frozen=True):
    """A member that must be null, because any other value of it is text or unknown."""


class Examination(Struct):
    unknown_fields: list[str] = []
    problems: list[Problem] = []
    values: dict[str, Any] = {}


Member = Field | Shape | Null


def shape_of(struct: type[Struct]) -> Shape:
    members = msgspec.structs.fields(struct)
    return Shape(
        members={member.name: _member_of(member.name, member.type) for member in members},
        required=tuple(member.name for member in members if member.required),
    )


def outline(shape: Shape) -> str:
    """Return the allowlist as text: `model usage(prompt_tokens) stop_sequence()`.

    A member that must be null is written as an empty object.
    """
    parts = []
    for name, member in shape.members.items():
        within = f"({outline(member)})" if isinstance(member, Shape) else ""
        parts.append(name + ("()" if isinstance(member, Null) else within))
    return " ".join(parts)


def _member_of(name: str, annotation: Any) -> Member:
    if annotation is types.NoneType:
        return Null()
    if name == "units":
        return Shape({str(unit): field for unit, field in UNIT_FIELDS.items()}, (), MAX_UNITS)
    is_union = get_origin(annotation) in (Union, types.UnionType)
    kinds = get_args(annotation) if is_union else (annotation,)
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    first = kinds[0]
    if isinstance(first, type) and issubclass(first, Struct):
        return shape_of(first)
    if len(kinds) > 1:
        return ANY_MOMENT
    if name in LOG_RECORD:
        return LOG_RECORD[name]
    if first == Word:
        return WORD
    return COUNT if get_args(first)[0] is int else LABEL


def examine(document: Mapping[str, Any], shape: Shape, path: str = "") -> Examination:
    found = Examination()
    for key, value in document.items():
        member = shape.members.get(key)
        if member is None:
            found.unknown_fields.append(_shown(key, path))
            continue
        may_be_empty = isinstance(member, Field) and member.is_text and key not in shape.required
        if value is not None and not (value == "" and may_be_empty):
            _examine_member(found, key, value, member, path)
    if shape.most is not None and len(document) > shape.most:
        found.problems.append(
            Problem("bad", path[:-1], f"an object of at most {shape.most} members")
        )
    found.problems += [
        Problem("missing", path + name) for name in shape.required if document.get(name) is None
    ]
    return found


def _examine_member(found: Examination, key: str, value: Any, member: Member, path: str) -> None:
    name = path + key
    if isinstance(member, Null):
        found.unknown_fields.append(name)
        return
    if isinstance(member, Shape) and isinstance(value, dict):
        within = examine(value, member, f"{name}.")
        found.unknown_fields += within.unknown_fields
        found.problems += within.problems
        found.values[key] = within.values
        return
    keys, expected = list[str](), "an object"  # the keys at any depth: it should have none
    stack = [(value, name)]
    while stack and len(keys) <= MAX_NAMES:
        current, prefix = stack.pop()
        if isinstance(current, dict):
            keys += [_shown(inner, f"{prefix}.") for inner in current]
            stack += [(inner, prefix) for inner in current.values()]
        elif isinstance(current, list):
            stack += [(inner, prefix) for inner in current]
    if isinstance(member, Field):
        expected = member.expected
        is_possible = member.is_list if isinstance(value, list) else not isinstance(value, dict)
        if is_possible and not keys:
            try:
                found.values[key] = member.read(value)
                return
            except (ValueError, OverflowError):
                pass
    found.unknown_fields += keys
    found.problems.append(Problem("bad", name, expected))


def _shown(key: str, path: str) -> str:
    if FIELD_NAME.fullmatch(key):
        return path + key
    return f"{NO_NAME} in {path[:-1]}" if path else NO_NAME
