"""Schemas of marks: what an account notes on days of its charts."""

from marshmallow import RAISE, Schema, fields
from marshmallow.validate import Length

from service.web.schemas.audits import Moment
from service.web.schemas.ingest import described, required
from service.web.schemas.labels import MAX_LENGTH
from service.web.schemas.spend import day_field


class MarkQuerySchema(Schema):
    first = day_field("from", "The first day (UTC). By default, the first mark's.", "2026-03-01")
    last = day_field("to", "The last day (UTC), inclusive.", "2026-03-30")


class NewMarkSchema(Schema):
    class Meta:
        unknown = RAISE

    words = required(fields.String, "What changed.", validate=Length(min=1, max=MAX_LENGTH))
    day = day_field("day", "The day (UTC). By default, today.", "2026-03-14")


class MarkSchema(Schema):
    id = required(fields.String, "The mark's ID.")
    day = required(fields.Date, "The day (UTC).")
    words = required(fields.String, "What changed.")
    created_at = required(Moment, "When the mark was added, in UTC.")


class MarkListSchema(Schema):
    marks = fields.List(
        fields.Nested(MarkSchema), required=True, metadata=described("The oldest day first.")
    )
