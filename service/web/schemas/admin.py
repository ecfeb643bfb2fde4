"""Response schemas of the admin endpoints."""

from typing import Final

from marshmallow import EXCLUDE, Schema, fields
from marshmallow.validate import Length, OneOf, Range

from service.models.audits.audits import SOURCES, STATUSES
from service.models.operations.admin_actions import ADMIN_ACTIONS
from service.web.schemas.audits import Moment

_MAX_PAGE: Final = 1_000


class PagesSchema(Schema):
    """The page number of each list, from 1."""

    class Meta:
        unknown = EXCLUDE

    audits_page = fields.Integer(load_default=1, validate=Range(1, _MAX_PAGE))
    accounts_page = fields.Integer(load_default=1, validate=Range(1, _MAX_PAGE))
    events_page = fields.Integer(load_default=1, validate=Range(1, _MAX_PAGE))
    early_access_page = fields.Integer(load_default=1, validate=Range(1, _MAX_PAGE))
    acts_page = fields.Integer(load_default=1, validate=Range(1, _MAX_PAGE))


class AuditLineSchema(Schema):
    id = fields.String(required=True)
    status = fields.String(required=True, validate=OneOf(STATUSES))
    attempts = fields.Integer(required=True)
    source = fields.String(required=True, validate=OneOf(SOURCES))
    email = fields.String(required=True)
    created_at = Moment(required=True)
    age_seconds = fields.Integer(required=True)
    records = fields.Integer(required=True)
    size_bytes = fields.Integer(required=True, allow_none=True)
    raw_purged_at = Moment(required=True, allow_none=True)
    error = fields.String(required=True, allow_none=True)


class AccountLineSchema(Schema):
    id = fields.String(required=True)
    email = fields.String(required=True)
    plan = fields.String(required=True)
    free_credits = fields.Integer(required=True)
    created_at = Moment(required=True)


class EventLineSchema(Schema):
    provider = fields.String(required=True)
    event_id = fields.String(required=True)
    type = fields.String(required=True)
    occurred_at = Moment(required=True)
    received_at = Moment(required=True)


class EarlyAccessLineSchema(Schema):
    email = fields.String(required=True)
    asked_at = Moment(required=True)


class ActLineSchema(Schema):
    act = fields.String(required=True, validate=OneOf(ADMIN_ACTIONS))
    target = fields.String(required=True)
    via = fields.String(required=True)
    acted_at = Moment(required=True)


class WaitingSchema(Schema):
    kind = fields.String(required=True)
    status = fields.String(required=True)
    number = fields.Integer(required=True)
    oldest_age_seconds = fields.Integer(required=True)


class StoredLineSchema(Schema):
    account_id = fields.String(required=True)
    email = fields.String(required=True)
    report_bytes = fields.Integer(required=True)
    raw_bytes = fields.Integer(required=True)
    call_bytes = fields.Integer(required=True)
    spend_bytes = fields.Integer(required=True)
    total_bytes = fields.Integer(required=True)
    measured_at = Moment(required=True)


class OverviewSchema(Schema):
    """The content of the admin page. `next_pages` has the lists with more entries."""

    audits = fields.List(fields.Nested(AuditLineSchema), required=True)
    accounts = fields.List(fields.Nested(AccountLineSchema), required=True)
    payment_events = fields.List(fields.Nested(EventLineSchema), required=True)
    early_access = fields.List(fields.Nested(EarlyAccessLineSchema), required=True)
    acts = fields.List(fields.Nested(ActLineSchema), required=True)
    queue = fields.List(fields.Nested(WaitingSchema), required=True)
    wake_ups = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        allow_none=True,
        metadata={"description": "Waiting jobs in Redis by queue. Null while Redis is down."},
    )
    mails = fields.List(fields.Nested(WaitingSchema), required=True)
    failed_mails = fields.Integer(required=True)
    stored_data = fields.List(
        fields.Nested(StoredLineSchema),
        required=True,
        metadata={"description": "The accounts that store most, measured once a day."},
    )
    next_pages = fields.Dict(keys=fields.String(), values=fields.Integer(), required=True)


class PurgedSchema(Schema):
    audit_id = fields.String(required=True)
    raw_purged_at = Moment(required=True)
    is_repeat = fields.Boolean(required=True)


class SignedOutSchema(Schema):
    account_id = fields.String(required=True)
    sessions = fields.Integer(required=True, metadata={"description": "How many were ended."})


class RerunSchema(Schema):
    audit_id = fields.String(required=True)
    status = fields.String(required=True, validate=Length(min=1))


class MarkedPaidSchema(Schema):
    payment_id = fields.String(required=True)
    account_id = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "Null until someone signs in with the email address."},
    )
    is_repeat = fields.Boolean(required=True)
