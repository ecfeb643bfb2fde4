"""Schemas for listing and revoking report links."""

from marshmallow import Schema, fields
from marshmallow.validate import OneOf, Range

from service.models.audits.report_links import STATES
from service.web.schemas.audits import Moment, limit_field
from service.web.schemas.cursors import CursorField, Rows, find_cursor
from service.web.schemas.ingest import audit_id_field, described, required


class ReportLinkQuerySchema(Schema):
    limit = limit_field("Maximum number of report links to return.")
    cursor = CursorField(find_cursor, metadata=described("The `next_cursor` of the previous page."))


class ReportLinkSchema(Schema):
    """The link itself isn't included, because anyone who has it can read the report."""

    audit_id = audit_id_field()
    state = required(
        fields.String, "The link works only while it is `active`.", validate=OneOf(STATES)
    )
    issued_at = required(Moment, "When the link was issued, in UTC.")
    expires_at = required(Moment, "When the link stops working unless revoked, in UTC.")
    revoked_at = Moment(metadata=described("When it was revoked. Present only if `revoked`."))
    opens = required(
        fields.Integer, "How often it was opened by anyone but you.", validate=Range(min=0)
    )
    last_opened_at = Moment(metadata=described("Present once it was opened, in UTC."))


class ReportLinkListSchema(Schema):
    report_links = required(Rows, "The latest issued first.", fields.Nested(ReportLinkSchema))
    next_cursor = fields.String(
        metadata=described("Pass it as `cursor` to get the next page. Absent on the last page.")
    )
