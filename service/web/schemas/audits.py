"""Schemas of an audit's status and of the query of the audit list."""

import re
from datetime import UTC, datetime
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields
from marshmallow.validate import OneOf, Range

from service.models.audits.audits import SOURCES, STATUSES
from service.models.calls.account_audits import DEFAULT_WINDOW, WINDOWS
from service.web.schemas.cursors import CursorField, find_cursor
from service.web.schemas.ingest import audit_id_field, described

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
_SINCE_EXPECTED: Final = "must be a date or time, such as 2026-03-01 or 2026-03-01T12:00:00Z"
_SPACE_FOR_PLUS: Final = re.compile(r" (\d\d:?\d\d)$", re.ASCII)
_WINDOW_EXPECTED: Final = "must be 7, 30 or 90"
_LIMIT_EXPECTED: Final = f"must be a whole number from 1 to {MAX_LIMIT}"


def status_field() -> fields.String:
    return fields.String(
        required=True,
        validate=OneOf(STATUSES),
        metadata=described("A report is available once the status is `done`."),
    )


class AuditStatusSchema(Schema):
    """Which keys are present depends on the status."""

    audit_id = audit_id_field()
    status = status_field()
    queue_position = fields.Integer(
        validate=Range(min=0),
        metadata=described("Number of queued audits ahead. Present only while `queued`."),
    )
    valid_pct = fields.Float(
        validate=Range(min=0, max=100),
        metadata=described("Percentage of valid rows. Present once validation has run."),
    )
    error = fields.String(metadata=described("Why the audit failed. Present only if `failed`."))


class PlainInteger(fields.Integer):
    """An integer of digits only; Python also accepts `1_0`, `+1` and ` 1`."""

    def _validated(self, value: Any) -> int:
        if not (value.isascii() and value.isdigit()):
            raise self.make_error("invalid")
        return super()._validated(value)


class Moment(fields.AwareDateTime):
    """A time in UTC, ending in `Z`."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Since(fields.String):
    """An ISO 8601 date or time; UTC if it has no offset."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        # A plus sign that wasn't URL-encoded arrives as a space.
        text = _SPACE_FOR_PLUS.sub(r"+\1", text)
        try:
            moment = datetime.fromisoformat(text)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise ValidationError(_SINCE_EXPECTED) from error


def limit_field(text: str) -> PlainInteger:
    return PlainInteger(
        load_default=DEFAULT_LIMIT,
        validate=Range(min=1, max=MAX_LIMIT, error=_LIMIT_EXPECTED),
        error_messages={"invalid": _LIMIT_EXPECTED},
        metadata=described(text),
    )


class AuditListQuerySchema(Schema):
    limit = limit_field("Maximum number of audits to return.")
    status = fields.String(
        validate=OneOf(STATUSES, error=f"must be one of {', '.join(STATUSES)}"),
        metadata=described("Only audits with this status."),
    )
    since = Since(
        metadata={
            "description": "Only audits created at or after this ISO 8601 date or time; UTC if it"
            " has no offset.",
            "example": "2026-03-01T00:00:00Z",
        },
    )
    cursor = CursorField(
        find_cursor,
        metadata=described("The `next_cursor` of the previous page, with the same filters."),
    )
    source = fields.String(
        validate=OneOf(SOURCES, error=f"must be one of {', '.join(SOURCES)}"),
        metadata=described(
            "Only audits of batches (`ingest`), of uploaded files (`upload`), or of the whole"
            " account (`account`). By default, all but those of the account."
        ),
    )


class AccountAuditQuerySchema(Schema):
    window_days = PlainInteger(
        load_default=DEFAULT_WINDOW,
        validate=OneOf(WINDOWS, error=_WINDOW_EXPECTED),
        error_messages={"invalid": _WINDOW_EXPECTED},
        metadata=described("The days that end with your newest call: 7, 30 or 90."),
    )


class AccountAuditSchema(Schema):
    audit_id = audit_id_field()
    status_url = fields.Url(required=True, metadata=described("Where to poll the status."))


class SpanImportSchema(Schema):
    calls = fields.Integer(
        required=True,
        metadata=described("Number of calls in spans that were waiting to be imported."),
    )
