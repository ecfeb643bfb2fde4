"""Rows of a page are written as marshmallow writes them, whatever the schema and the values."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import pytest
from marshmallow import Schema, fields

from service.web.schemas.cursors import Rows

# Values for each class of fields, the derived classes first.
_VALUES: Final[dict[type, tuple[Any, ...]]] = {
    fields.AwareDateTime: (
        datetime(2026, 3, 1, 12, 0, 0, 5, UTC),
        datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    ),
    fields.Date: (date(2026, 3, 1),),
    fields.Boolean: (True, False),
    fields.Integer: (3, True, Decimal("3.9")),
    fields.Float: (Decimal("0.100000001"), 2, 0.5, Decimal(10) ** 25),
    fields.String: ("text", "", b"bytes", 7),
}
_TURNS: Final = 5


def _rows_fields(of: type[Schema] = Schema) -> Iterator[Rows]:
    for schema in of.__subclasses__():
        yield from (field for field in schema().fields.values() if isinstance(field, Rows))
        yield from _rows_fields(schema)


def _make_row(schema: Schema, turn: int) -> dict[str, Any]:
    """Return a row with other values in each turn; one of five is None, and another missing."""
    row: dict[str, Any] = {"unknown": 1}
    for at, (name, field) in enumerate(schema.fields.items()):
        values = next(values for kind, values in _VALUES.items() if isinstance(field, kind))
        if (at - turn) % 5 != 1:
            is_none = at % 5 == turn
            row[field.attribute or name] = None if is_none else values[turn % len(values)]
    return row


@pytest.mark.usefixtures("app")  # which defines the schemas
def test_rows_are_written_as_their_schema_writes_them() -> None:
    found = list(_rows_fields())
    assert len(found) >= 5
    for field in found:
        schema = field.inner.schema
        assert not any(schema._hooks.values()), schema
        rows = [_make_row(schema, turn) for turn in range(_TURNS)]
        # As text: the types and the order of the keys count, too.
        assert repr(field._serialize(rows, None, None)) == repr(schema.dump(rows, many=True))
