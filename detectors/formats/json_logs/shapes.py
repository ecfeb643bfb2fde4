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


class Listed(msgspec.Struct, frozen=True):
    """An array of objects of one shape."""

    shape: Shape


class Null(msgspec.Struct, frozen=True):
    """A member that must be null, because any other value of it is text or unknown."""


class Examination(Struct):
    unknown_fields: list[str] = []
    problems: list[Problem] = []
    values: dict[str, Any] = {}


Member = Field | Shape | Listed | Null


def shape_of(struct: type[Struct]) -> Shape:
    members = msgspec.structs.fields(struct)
    return Shape(
        members={member.name: _member_of(member.name, member.type) for member in members},
        required=tuple(member.name for member in members if member.required),
    )


def outline(shape: Shape) -> str:
    """Return the allowlist as text: `model usage(prompt_tokens) stop_sequence()`.

    An array of objects is written as one object, and a member that must be null as an empty one.
    """
    parts = []
    for name, member in shape.members.items():
        inner = member.shape if isinstance(member, Listed) else member
        within = f"({outline(inner)})" if isinstance(inner, Shape) else ""
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
    if get_origin(first) is list:
        return Listed(shape_of(get_args(first)[0]))
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
        elif not _is_absent(value, member, key in shape.required):
            _examine_member(found, key, value, member, path)
    if shape.most is not None and len(document) > shape.most:
        found.problems.append(
            Problem("bad", path[:-1], f"an object of at most {shape.most} members")
        )
    found.problems += [
        Problem("missing", path + name) for name in shape.required if document.get(name) is None
    ]
    return found


def _is_absent(value: object, member: Member, is_required: bool) -> bool:
    """Check for null, or an empty text in an optional field."""
    if value == "" and not is_required:
        return isinstance(member, Field) and member.is_text
    return value is None


def _examine_member(found: Examination, key: str, value: Any, member: Member, path: str) -> None:
    name = path + key
    if isinstance(member, Shape) and isinstance(value, dict):
        found.values[key] = _take(found, examine(value, member, f"{name}."))
    elif isinstance(member, Listed) and isinstance(value, list):
        found.values[key] = [_examine_item(found, item, member.shape, name) for item in value]
    elif isinstance(member, Field) and not _keys_within(value, name) and _may_be(value, member):
        try:
            found.values[key] = member.read(value)
        except (ValueError, OverflowError):
            found.problems.append(Problem("bad", name, member.expected))
    elif isinstance(member, Null):
        found.unknown_fields.append(name)
    else:
        found.unknown_fields += _keys_within(value, name)
        found.problems.append(Problem("bad", name, _expected_of(member)))


def _may_be(value: Any, member: Field) -> bool:
    return member.is_list if isinstance(value, list) else not isinstance(value, dict)


def _examine_item(found: Examination, item: Any, shape: Shape, name: str) -> dict[str, Any]:
    if isinstance(item, dict):
        return _take(found, examine(item, shape, f"{name}."))
    found.unknown_fields += _keys_within(item, name)
    found.problems.append(Problem("bad", name, "an array of objects"))
    return {}


def _take(found: Examination, within: Examination) -> dict[str, Any]:
    found.unknown_fields += within.unknown_fields
    found.problems += within.problems
    return within.values


def _expected_of(member: Field | Shape | Listed) -> str:
    if isinstance(member, Field):
        return member.expected
    return "an object" if isinstance(member, Shape) else "an array of objects"


def _keys_within(value: Any, path: str) -> list[str]:
    """Return the keys, at any depth, of a value that should have none."""
    names: list[str] = []
    stack = [(value, path)]
    while stack and len(names) <= MAX_NAMES:
        current, prefix = stack.pop()
        if isinstance(current, dict):
            names += [_shown(key, f"{prefix}.") for key in current]
            stack += [(inner, prefix) for inner in current.values()]
        elif isinstance(current, list):
            stack += [(inner, prefix) for inner in current]
    return names


def _shown(key: str, path: str) -> str:
    if FIELD_NAME.fullmatch(key):
        return path + key
    return f"{NO_NAME} in {path[:-1]}" if path else NO_NAME
