"""Responses are written as marshmallow writes them, whatever the schema and the values."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Final

import pytest
from marshmallow import Schema, fields

from service.web.openapi.response_writer import ResponseWriter

# Values other than None for each class of fields, the derived classes first.
_VALUES: Final[dict[type, tuple[Any, ...]]] = {
    fields.AwareDateTime: (
        datetime(2026, 3, 1, 12, 0, 0, 5, UTC),
        datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    ),
    fields.Date: (date(2026, 3, 1),),
    fields.Boolean: (True, False, 1, "yes"),
    fields.Integer: (3, True, Decimal("3.9")),
    fields.Float: (Decimal("0.100000001"), 2, 0.5, Decimal(10) ** 25),
    fields.String: ("text", "", b"bytes", 7),
    fields.Decimal: (Decimal("0.5"),),
    fields.Dict: ({"key": 1}, {}),
}
_TURNS: Final = max(map(len, _VALUES.values()))


def _schemas(of: type[Schema] = Schema) -> Iterator[type[Schema]]:
    for schema in of.__subclasses__():
        if schema.__module__.startswith("service.web.schemas."):
            yield schema
        yield from _schemas(schema)


def _value(field: Any, make: Callable[..., Any], turn: int) -> Any:
    if isinstance(field, fields.Nested):
        return _object(field.schema, make, turn)
    if isinstance(field, fields.List):
        return [_value(field.inner, make, each) for each in range(turn)] + [None]
    choices = next(values for kind, values in _VALUES.items() if isinstance(field, kind))
    return choices[turn % len(choices)]


def _object(schema: Any, make: Callable[..., Any], turn: int) -> Any:
    """Return an object with other values in each turn; some are None, and one is missing."""
    names = {field.attribute or name: field for name, field in schema.fields.items()}
    del names[list(names)[turn % len(names)]]
    values = {
        name: None if at % 5 == turn else _value(field, make, turn)
        for at, (name, field) in enumerate(names.items())
    }
    return make(**values)


@pytest.mark.usefixtures("app")  # which defines the schemas
def test_every_schema_is_written_as_marshmallow_writes_it() -> None:
    schemas = [each() for each in set(_schemas()) if not each.__name__.endswith("QuerySchema")]
    assert len(schemas) > 40
    for schema in schemas:
        for turn in range(_TURNS if schema.fields else 0):
            for make in (dict, SimpleNamespace):
                found = _object(schema, make, turn)
                # As text: the types and the order of the keys count, too.
                written = repr(ResponseWriter(schema).dump(found))
                assert written == repr(schema.dump(found)), type(schema)
