"""An object of someone else's log, of which only the members that are read are decoded.

Answers and tool calls are never in memory as text. The members with prompts are, until they are
hashed.
"""

from collections.abc import Container, Iterable
from typing import Any, Final

import msgspec

from detectors.formats.json_logs.usage.reader import Reading, read_usage

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLAIN: Final = msgspec.json.Decoder()
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Row:
    """The members of an object: JSON that is not decoded yet, or plain values."""

    __slots__ = ("_members",)

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    @classmethod
    def decode(cls, text: bytes | str) -> "Row":
        """Return the row of a JSON object; other text raises what msgspec raises."""
        return cls(_MEMBERS.decode(text))

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def has(self, name: str) -> bool:
        value = self._members.get(name)
        return value is not None and (type(value) is not msgspec.Raw or _start(value) != b"null")

    def get(self, name: str) -> Any:
        value = self._members.get(name)
        if isinstance(value, msgspec.Raw):
            try:
                return _PLAIN.decode(value)
            except UNREADABLE:
                return None
        return value.plain() if isinstance(value, Row) else value

    def plain(self, names: Container[str] | None = None) -> dict[str, Any]:
        return {name: self.get(name) for name in self._members if names is None or name in names}

    def names(self) -> Iterable[str]:
        return self._members.keys()

    def first(self, *names: str) -> Any:
        for name in names:
            if name in self._members and (value := self.get(name)) is not None:
                return value
        return None

    def inner(self, *path: str) -> "Row":
        """Return the object at this path, also from JSON text; an empty row if there is none."""
        row = self
        for name in path:
            value = row._members.get(name)
            if value is None:
                return NOTHING
            if type(value) is not Row:
                found = row_of(value)
                if type(value) is msgspec.Raw and found is not NOTHING and _is_object(value):
                    row._members[name] = found  # decoded once, however often it is read
                value = found
            row = value
        return row

    def mentions(self, name: str, *members: str) -> bool:
        """Check whether an object within the row has one of these members, without decoding it."""
        value = self._members.get(name)
        if value is None:
            return False
        if type(value) is msgspec.Raw:
            text = bytes(value)
            if not any(member.encode() in text for member in members):
                return False
        inner = self.inner(name)
        return any(member in inner for member in members)

    def items(self, name: str) -> list["Row"]:
        """Return the objects of an array."""
        value = self._members.get(name)
        try:
            if type(value) is msgspec.Raw:
                return [Row(members) for members in _ROWS.decode(value)]
        except UNREADABLE:
            return []
        found = value if isinstance(value, list) else []
        return [Row(item) for item in found if isinstance(item, dict)]

    def raw(self, name: str) -> bytes:
        """Return the member's JSON; empty if it is absent or a plain value."""
        value = self._members.get(name)
        return bytes(value) if type(value) is msgspec.Raw else b""


_ROWS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
NOTHING: Final = Row({})


def row_of(value: Any) -> Row:
    """Return the row of an object, decoded or not, or of JSON text; an empty row otherwise."""
    try:
        if type(value) is msgspec.Raw:
            if _is_object(value):
                return Row(_MEMBERS.decode(value))
            value = _PLAIN.decode(value)
        if isinstance(value, dict):
            return Row(value)
        if isinstance(value, str) and value.startswith("{"):
            return Row(_MEMBERS.decode(value))
    except UNREADABLE:
        pass
    return NOTHING


def _is_object(value: msgspec.Raw) -> bool:
    return _start(value)[:1] == b"{"


def _start(value: msgspec.Raw) -> bytes:
    return memoryview(value)[:4].tobytes()  # without a copy of the rest, which can be large


def parsed(value: Any) -> Any:
    """Return the value of a text that is JSON, or the value itself."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return _PLAIN.decode(value)
        except UNREADABLE:
            pass
    return value


# The calls of the usage of one answer: none where it has no counts.
Usages = list[Reading]


def plain_counts(prompt: Any, completion: Any) -> Usages:
    return read_usage({"prompt_tokens": prompt, "completion_tokens": completion})


def read_usages(*usages: Any, **context: Any) -> Usages:
    """Return the calls of the first of these objects, or texts of objects, that has counts."""
    return next(filter(None, (read_usage(parsed(usage), **context) for usage in usages)), [])


def token_members(row: Row, prefix: str = "", *, others: Iterable[str] = ()) -> dict[str, Any]:
    kept = {*others, *(name for name in row.names() if "token" in name and name.startswith(prefix))}
    return {name.removeprefix(prefix): value for name, value in row.plain(kept).items()}
