"""Write responses as their schemas describe them.

For each value, marshmallow asks the field, the schema and the object how to read it, which takes
longer than a page of 200 audits takes otherwise. Here that is decided once for each schema. The
result is the same.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from marshmallow import Schema, fields, missing
from marshmallow.utils import ensure_text_type

_Write = Callable[[Any], Any]

# What these fields do to a value other than None; classes derived from them may do something else.
_PLAIN: Final[Mapping[type, _Write]] = {
    fields.String: ensure_text_type,
    fields.Integer: int,
    fields.Float: float,
}


class _Part(NamedTuple):
    """A field of an object: its key in the response, and how it is read and written."""

    key: str
    name: str
    write: _Write


class ResponseWriter:
    """A schema for `Blueprint.response`, without hooks and without default values."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        return tuple(
            _Part(field.data_key or name, field.attribute or name, _find_write(name, field))
            for name, field in self.schema.dump_fields.items()
        )

    def dump(self, found: Any) -> dict[str, Any]:
        """Return the fields that a mapping or an object has, as `Schema.dump` does."""
        read = found.get if isinstance(found, Mapping) else partial(getattr, found)
        dumped = {}
        for key, name, write in self._parts:
            value = read(name, missing)
            if value is not missing:
                dumped[key] = None if value is None else write(value)
        return dumped


def _find_write(name: str, field: fields.Field[Any]) -> _Write:
    """Return what the field does to a value other than None."""
    if type(field) is fields.Nested and not field.many:
        return ResponseWriter(field.schema).dump
    if type(field) is fields.List:
        write = _find_write(name, field.inner)
        return lambda values: [None if value is None else write(value) for value in values]
    return _PLAIN.get(type(field)) or (lambda value: field._serialize(value, name, None))
