"""The shapes of what is read back: audits, their findings, and how they are asked for."""

import re
from datetime import UTC, datetime
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields
from marshmallow.validate import OneOf, Range

from service.models.audits.audits import STATUSES
from service.web.schemas.cursors import find_cursor
from service.web.schemas.ingest import audit_id_field, described

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
_SINCE_EXPECTED: Final = "must be a day or a time, as 2026-03-01 or 2026-03-01T12:00:00Z"
_SPACE_FOR_PLUS: Final = re.compile(r" (\d\d:?\d\d)$", re.ASCII)
_LIMIT_EXPECTED: Final = f"must be a whole number from 1 to {MAX_LIMIT}"


def _status() -> fields.String:
    return fields.String(
        required=True,
        validate=OneOf(STATUSES),
        metadata=described("`done` has a report; `failed` has none."),
    )


class AuditStatusSchema(Schema):
    """The keys that are there depend on the status."""

    audit_id = audit_id_field()
    status = _status()
    queue_position = fields.Integer(
        validate=Range(min=0),
        metadata=described("How many queued audits come before; only while `queued`."),
    )
    valid_pct = fields.Float(
        validate=Range(min=0, max=100),
        metadata=described("Percentage of valid rows, once validation has run."),
    )
    error = fields.String(metadata=described("Only of an audit that `failed`."))


class PlainInteger(fields.Integer):
    """Digits and nothing else, where Python would also take `1_0`, `+1` and ` 1`."""

    def _validated(self, value: Any) -> int:
        if not (value.isascii() and value.isdigit()):
            raise self.make_error("invalid")
        return super()._validated(value)


class Moment(fields.AwareDateTime):
    """A time, written in UTC and ending in `Z`."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Since(fields.String):
    """A day or a time, ISO 8601; UTC where it names no offset."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        # A plus that was not encoded arrives as a space.
        text = _SPACE_FOR_PLUS.sub(r"+\1", text)
        try:
            moment = datetime.fromisoformat(text)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise ValidationError(_SINCE_EXPECTED) from error


class Cursor(fields.String):
    """A cursor of a list, loaded as the position it encodes."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        position = find_cursor(super()._deserialize(value, attr, data, **kwargs))
        if position is None:
            raise ValidationError("must be the next_cursor of an earlier answer")
        return position


class AuditListQuerySchema(Schema):
    limit = PlainInteger(
        load_default=DEFAULT_LIMIT,
        validate=Range(min=1, max=MAX_LIMIT, error=_LIMIT_EXPECTED),
        error_messages={"invalid": _LIMIT_EXPECTED},
        metadata=described("How many audits a page has."),
    )
    status = fields.String(
        validate=OneOf(STATUSES, error=f"must be one of {', '.join(STATUSES)}"),
        metadata=described("Only audits of this status."),
    )
    since = Since(
        metadata={
            "description": "Only audits created then or later: a day or a time, ISO 8601, UTC"
            " where it names no offset.",
            "example": "2026-03-01T00:00:00Z",
        },
    )
    cursor = Cursor(
        metadata=described("The `next_cursor` of the page before, with the same filters."),
    )


class AuditSummarySchema(Schema):
    """Counts and dollars only. Totals are 0 until they are computed."""

    id = audit_id_field()
    status = _status()
    created_at = Moment(
        required=True, metadata=described("When the batch or the file was accepted; UTC.")
    )
    records = fields.Integer(required=True, metadata=described("How many calls were audited."))
    observed_days = fields.Integer(
        required=True,
        metadata=described("Days (UTC) from the first call to the last, both included."),
    )
    total_spend_usd = fields.Float(
        required=True, metadata=described("What the priced calls cost, in US dollars.")
    )
    projected_spend_usd = fields.Float(
        required=True, metadata=described("The same for 30 days, in US dollars.")
    )
    savings_pct = fields.Float(
        required=True,
        metadata=described("The avoidable share of the spend, overlaps counted once; 0 to 100."),
    )
    equiv_spend = fields.Boolean(
        required=True,
        metadata=described(
            "Whether some of it is list-price value and not a bill: calls of flat-rate plans, or of"
            " providers without prices of their own."
        ),
    )
    findings = fields.Integer(
        required=True, attribute="findings_count", metadata=described("How many.")
    )


class AuditListSchema(Schema):
    audits = fields.List(
        fields.Nested(AuditSummarySchema),
        required=True,
        metadata=described("A page of the account's audits, the newest first."),
    )
    next_cursor = fields.String(
        metadata=described("Where the next page begins; absent on the last one.")
    )


class FindingSchema(Schema):
    id = fields.String(required=True, metadata=described("Names it within its audit."))
    detector = fields.String(
        required=True, metadata=described("Which detector found it, `d1_model_overkill` say.")
    )
    route = fields.String(
        required=True, metadata=described("The tag, else the endpoint, else the model.")
    )
    severity = fields.String(
        required=True, metadata=described("`high`, `medium` or `low`, by its monthly dollars.")
    )
    confidence = fields.String(
        required=True,
        metadata=described(
            "`VERIFIED` by billed counts or equal hashes, `ESTIMATED` on a stated assumption, or"
            " `INFORMATIONAL`, which claims no dollars."
        ),
    )
    monthly_cost_impact_usd = fields.Float(
        required=True,
        metadata=described("What it alone would save in 30 days, in US dollars."),
    )
    fix = fields.String(required=True, metadata=described("What to do, in a sentence or two."))


class FindingListSchema(Schema):
    audit_id = audit_id_field()
    findings = fields.List(
        fields.Nested(FindingSchema),
        required=True,
        metadata=described("Ranked by monthly impact. Their savings overlap: do not add them up."),
    )
