"""Pages of lists, and cursors: opaque strings that encode where the next page begins."""

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from marshmallow import ValidationError, fields

from detectors.contract import LABEL_PATTERN, MAX_LABEL_LENGTH
from service.models.audits.audits import Cursor
from service.models.calls.finding_list import FindingCursor
from service.models.calls.spend import DAY, KEYS, MAX_KEYS, Key

MAX_LENGTH: Final = 200
EXPECTED: Final = "must be the next_cursor of an earlier response"
# Three labels of four-byte characters, and their range; a URL has room for 4,094 bytes.
_MAX_SPEND_LENGTH: Final = 3_600
# Microseconds since 1970, and an ID.
_SHAPE: Final = re.compile(r"([0-9]{1,16})\.([A-Za-z0-9._-]{1,64})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Row = TypeVar("Row")


class CursorField(fields.String):
    """A cursor, loaded as the position that it encodes."""

    def __init__(self, find: Callable[[str], Any], **options: Any) -> None:
        super().__init__(**options)
        self._find = find

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        position = self._find(super()._deserialize(value, attr, data, **kwargs))
        if position is None:
            raise ValidationError(EXPECTED)
        return position


class Rows(fields.List[Any]):
    """The rows of a page: mappings, written with those fields of their schema that they have.

    For each value, `Schema.dump` asks the schema, the field and the row how to read it, which takes
    four times as long.
    """

    inner: fields.Nested

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        written = [
            (field.data_key or name, field.attribute or name, field._serialize)
            for name, field in self.inner.schema.dump_fields.items()
        ]
        return [
            {key: write(row[name], name, row) for key, name, write in written if name in row}
            for row in value
        ]


def page(name: str, rows: Sequence[Row], limit: int, make: Callable[[Row], str]) -> dict[str, Any]:
    """Return a page of a list; one row more than its limit shows that there is another page.

    `make` returns the cursor after a row.
    """
    found: dict[str, Any] = {name: rows[:limit]}
    return found if len(rows) <= limit else {**found, "next_cursor": make(rows[limit - 1])}


def make_cursor(position: Cursor) -> str:
    age = position.created_at - _EPOCH
    microseconds = (age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds
    return _encode(f"{microseconds}.{position.id}".encode())


def find_cursor(cursor: str) -> Cursor | None:
    """Decode a cursor that `make_cursor` wrote; return None for anything else."""
    try:
        found = _SHAPE.fullmatch(_decode(cursor, MAX_LENGTH).decode("ascii"))
        if found is None:
            return None
        seconds, microseconds = divmod(int(found[1]), 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
    except (ValueError, OverflowError, OSError):
        return None
    return Cursor(moment, found[2])


_FINDING: Final = msgspec.json.Decoder(
    tuple[
        Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,17}\.[0-9]{9}$")],
        Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")],
    ]
)


def make_finding_cursor(position: FindingCursor) -> str:
    return _encode(msgspec.json.encode((f"{position.monthly_usd:.9f}", position.id)))


def find_finding_cursor(cursor: str) -> FindingCursor | None:
    """Decode a cursor that `make_finding_cursor` wrote; return None for anything else."""
    try:
        monthly_usd, finding_id = _FINDING.decode(_decode(cursor, MAX_LENGTH))
    except ValueError:
        return None
    return FindingCursor(Decimal(monthly_usd), finding_id)


_Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_LENGTH, pattern=LABEL_PATTERN)]
_Keys = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=MAX_KEYS)]
_SPEND: Final = msgspec.json.Decoder(tuple[date, date, _Keys, tuple[_Label, ...]])


class SpendCursor(NamedTuple):
    """The range and keys of a page of spend, and the last row's values of these keys."""

    first: date
    last: date
    keys: tuple[str, ...]
    values: Key


def make_spend_cursor(position: SpendCursor) -> str:
    return _encode(msgspec.json.encode(position))


def find_spend_cursor(cursor: str) -> SpendCursor | None:
    """Decode a cursor that `make_spend_cursor` wrote; return None for anything else."""
    try:
        first, last, keys, labels = _SPEND.decode(_decode(cursor, _MAX_SPEND_LENGTH))
        if not set(keys) <= set(KEYS) or len(keys) != len(labels):
            return None
        values = tuple(
            date.fromisoformat(label) if key == DAY else label
            for key, label in zip(keys, labels, strict=True)
        )
    except ValueError:
        return None
    return SpendCursor(first, last, keys, values)


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _decode(cursor: str, max_length: int) -> bytes:
    """Return the content of a cursor; raise `ValueError` where it can have none."""
    if not cursor.isascii() or len(cursor) > max_length:
        raise ValueError
    return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
