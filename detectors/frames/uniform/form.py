"""The form that the lines of a log share: their keys, in order, and the type of each value.

A program writes all of its lines in one form, so a few of them show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import NoneType
from typing import Any, Final, Literal

import msgspec

from detectors.contract import LEVELS
from detectors.formats.fields import COUNT, MOMENT, RECORD, Field
from detectors.formats.json_logs.shapes import Shape

Document = Mapping[str, Any]
Kind = Literal["text", "count", "number", "hashes", "object", "null"]

_INTEGERS: Final = (COUNT.expected, MOMENT.expected)
_LATENCY: Final = RECORD["latency_ms"].expected


class NoFormError(Exception):
    """The lines have no form in common, or one that is not read together."""


class Key(msgspec.Struct, frozen=True):
    """A key of the form; an object has keys of its own. `path` is `usage.prompt_tokens`.

    The value of the kind "null" is null in all lines. "hashes" are lists of so many texts.
    """

    name: str
    path: str
    kind: Kind
    keys: "tuple[Key, ...]" = ()
    may_be_absent: bool = False
    may_be_null: bool = False
    sizes: tuple[int, ...] = ()


def find_form(documents: Sequence[Document], shape: Shape, before: str = "") -> tuple[Key, ...]:
    """Return the keys of these objects, which must be in one order; the first is in all of them.

    `NoFormError` if they have no such form, or what the shape does not allow.
    """
    order = TopologicalSorter[str]()
    for document in documents:
        for name in document:
            order.add(name)
        for earlier, later in pairwise(document):
            order.add(later, earlier)
    try:
        names = list(order.static_order())
    except CycleError:
        raise NoFormError from None
    keys = tuple(_find_key(name, documents, shape, before) for name in names)
    if not keys or keys[0].may_be_absent:
        raise NoFormError
    return keys


def _find_key(name: str, documents: Sequence[Document], shape: Shape, before: str) -> Key:
    values = [document[name] for document in documents if name in document]
    kinds = {type(value) for value in values}
    may_be_absent, may_be_null = len(values) < len(documents), NoneType in kinds
    kinds.discard(NoneType)
    if may_be_absent and may_be_null:
        raise NoFormError
    path, member = before + name, shape.members.get(name)
    kind: Kind
    keys: tuple[Key, ...] = ()
    sizes = set[int]()
    if member is not None and not kinds:
        kind = "null"
    elif isinstance(member, Shape) and kinds == {dict}:
        kind = "object"
        objects = [value for value in values if value is not None]
        keys = find_form(objects, member, f"{path}.")
    elif not isinstance(member, Field):
        raise NoFormError
    elif member.is_text and kinds == {str}:
        kind = "text"
    elif member.is_list and kinds == {list}:
        kind = "hashes"
        lists = [value for value in values if value is not None]
        sizes = set(map(len, lists))
        # Each text is two columns, so a long list would take gigabytes.
        if not 1 <= min(sizes) <= max(sizes) <= len(LEVELS):
            raise NoFormError
        if any(type(text) is not str for texts in lists for text in texts):
            raise NoFormError
    elif member.expected in _INTEGERS and kinds == {int}:
        kind = "count"
    elif member.expected == _LATENCY and kinds <= {int, float}:
        kind = "number"
    else:
        raise NoFormError
    may_be_null = may_be_null and bool(kinds)
    return Key(name, path, kind, keys, may_be_absent, may_be_null, tuple(sorted(sizes)))


def values_of(keys: Sequence[Key]) -> Iterator[Key]:
    """Yield the keys whose values are not objects and not always null."""
    for key in keys:
        if key.kind == "object":
            yield from values_of(key.keys)
        elif key.kind != "null":
            yield key
