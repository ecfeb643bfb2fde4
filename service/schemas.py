"""The shapes of the JSON API, in and out. The document at `/openapi.json` is made from these."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from marshmallow import RAISE, Schema, ValidationError, fields
from marshmallow.validate import Length, OneOf, Range, Regexp

from detectors.contract import (
    LABEL_PATTERN,
    MAX_BATCH_RECORDS,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    PREFIX_HASH_PATTERN,
    PROVIDER_PATTERN,
)
from service.cursors import find_place
from service.models.audits import STATUSES

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
_SINCE_EXPECTED: Final = "must be a day or a time, as 2026-03-01 or 2026-03-01T12:00:00Z"
_SPACE_FOR_PLUS: Final = re.compile(r" (\d\d:?\d\d)$", re.ASCII)
_LIMIT_EXPECTED: Final = f"must be a whole number from 1 to {MAX_LIMIT}"


class PaymentLinkSchema(Schema):
    provider = fields.String(required=True)
    url = fields.Url(required=True)


class ErrorDetailSchema(Schema):
    code = fields.String(required=True)
    message = fields.String(required=True, metadata={"description": "Safe to show to a user."})
    request_id = fields.String(
        required=True, metadata={"description": "Also in the X-Request-Id header."}
    )
    payment_links = fields.List(
        fields.Nested(PaymentLinkSchema),
        metadata={"description": "Where to buy a credit; only where an upload needs one."},
    )


class ErrorSchema(Schema):
    error = fields.Nested(ErrorDetailSchema, required=True)


def _described(text: str) -> Mapping[str, str]:
    return {"description": text}


def _count(text: str, *, required: bool = False) -> fields.Integer:
    return fields.Integer(
        strict=True,
        required=required,
        allow_none=not required,
        validate=Range(min=0, max=MAX_COUNT),
        metadata=_described(text),
    )


def _label(text: str) -> fields.String:
    shape = [Length(max=MAX_LABEL_LENGTH), Regexp(_published(LABEL_PATTERN))]
    return fields.String(allow_none=True, validate=shape, metadata=_described(text))


def _published(pattern: str) -> str:
    """The pattern in the dialect of JSON Schema, whose `$` is the end and not a last newline."""
    return pattern.replace(r"\Z", "$")


class UsageRecordSchema(Schema):
    """One language-model call as counts, times and labels. No other field is accepted."""

    class Meta:
        unknown = RAISE

    ts = fields.String(  # no `date-time`, which in JSON Schema demands an offset
        required=True,
        metadata=_described(
            "ISO 8601 time from 2000 to 2100; UTC is assumed when no offset is given."
        ),
    )
    provider = fields.String(
        required=True,
        validate=Regexp(_published(PROVIDER_PATTERN)),
        metadata=_described("`openai`, `anthropic`, or any lowercase label used for pricing."),
    )
    model = fields.String(
        required=True,
        validate=[Length(min=1, max=MAX_LABEL_LENGTH), Regexp(_published(LABEL_PATTERN))],
        metadata=_described("The model id as billed."),
    )
    prompt_tokens = _count("Total input tokens, cached portion included.", required=True)
    completion_tokens = _count("Output tokens.", required=True)
    cached_tokens = _count("Cache-read subset of the input tokens.")
    cache_write_tokens = _count("Cache-creation input tokens.")
    latency_ms = fields.Float(
        allow_none=True,
        validate=Range(min=0, max=MAX_LATENCY_MS),
        metadata=_described("Round-trip latency in milliseconds."),
    )
    endpoint = _label("Free label of the called endpoint.")
    request_id = _label("The caller's correlation id.")
    tag = _label("Free label: a service, a team, an agent session.")
    declared_max_tokens = _count("The `max_tokens` that the caller set.")
    prefix_hash = fields.String(
        allow_none=True,
        validate=Regexp(_published(PREFIX_HASH_PATTERN)),
        metadata=_described("SHA-256 hex digest of the prompt's first 4,096 characters."),
    )


class Records(fields.List[Any]):
    """Records that came through the strict bulk decoder already.

    The element schema documents what that decoder enforces; running it over 5,000 records would
    take twenty times as long and let `"5"` pass for 5.
    """

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


class BatchSchema(Schema):
    class Meta:
        unknown = RAISE

    records = Records(
        fields.Nested(UsageRecordSchema),
        required=True,
        validate=Length(min=1, max=MAX_BATCH_RECORDS),
    )


class AcceptedSchema(Schema):
    audit_id = fields.String(required=True)
    records = fields.Integer(required=True, metadata=_described("How many records were taken."))
    replayed = fields.Boolean(required=True, metadata=_described("Always false here."))


class ReplayedSchema(Schema):
    audit_id = fields.String(required=True)
    replayed = fields.Boolean(required=True, metadata=_described("Always true here."))


class EventReceivedSchema(Schema):
    received = fields.Boolean(required=True, metadata=_described("Always true."))


class UploadedSchema(Schema):
    audit_id = fields.String(required=True)
    replayed = fields.Boolean(required=True, metadata=_described("Whether this is a retry."))
    status_url = fields.Url(required=True, metadata=_described("Where to ask how far it is."))


class AuditStatusSchema(Schema):
    """The keys that are there depend on the status."""

    audit_id = fields.String(required=True)
    status = fields.String(required=True, validate=OneOf(STATUSES))
    queue_position = fields.Integer(
        validate=Range(min=0),
        metadata=_described("How many queued audits come before; only while `queued`."),
    )
    valid_pct = fields.Float(
        validate=Range(min=0, max=100),
        metadata=_described("Percentage of valid rows, once validation has run."),
    )
    error = fields.String(metadata=_described("Only of an audit that `failed`."))


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
    """Loaded as the place that it stands for."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        place = find_place(super()._deserialize(value, attr, data, **kwargs))
        if place is None:
            raise ValidationError("must be the next_cursor of an earlier answer")
        return place


class AuditListQuerySchema(Schema):
    limit = PlainInteger(
        load_default=DEFAULT_LIMIT,
        validate=Range(min=1, max=MAX_LIMIT, error=_LIMIT_EXPECTED),
        error_messages={"invalid": _LIMIT_EXPECTED},
    )
    status = fields.String(
        validate=OneOf(STATUSES, error=f"must be one of {', '.join(STATUSES)}"),
        metadata=_described("Only audits of this status."),
    )
    since = Since(
        metadata={
            "description": "Only audits created then or later: a day or a time, ISO 8601, UTC"
            " where it names no offset.",
            "example": "2026-03-01T00:00:00Z",
        },
    )
    cursor = Cursor(
        metadata=_described("The `next_cursor` of the page before, with the same filters."),
    )


class AuditSummarySchema(Schema):
    """Counts and dollars only. Totals are 0 until they are computed."""

    id = fields.String(required=True)
    status = fields.String(required=True, validate=OneOf(STATUSES))
    created_at = Moment(required=True)
    records = fields.Integer(required=True)
    observed_days = fields.Integer(required=True)
    total_spend_usd = fields.Float(required=True)
    projected_spend_usd = fields.Float(required=True)
    savings_pct = fields.Float(required=True)
    equiv_spend = fields.Boolean(required=True)
    findings = fields.Integer(
        required=True, attribute="findings_count", metadata=_described("How many.")
    )


class AuditListSchema(Schema):
    audits = fields.List(fields.Nested(AuditSummarySchema), required=True)
    next_cursor = fields.String(
        metadata=_described("Where the next page begins; absent on the last one.")
    )


class FindingSchema(Schema):
    id = fields.String(required=True)
    detector = fields.String(required=True)
    route = fields.String(required=True)
    severity = fields.String(required=True)
    confidence = fields.String(required=True)
    monthly_cost_impact_usd = fields.Float(required=True)
    fix = fields.String(required=True)


class FindingListSchema(Schema):
    audit_id = fields.String(required=True)
    findings = fields.List(fields.Nested(FindingSchema), required=True)


class HealthSchema(Schema):
    status = fields.String(required=True, validate=OneOf(("ok", "degraded")))
    components = fields.Dict(
        keys=fields.String(), values=fields.String(validate=OneOf(("ok", "down"))), required=True
    )
