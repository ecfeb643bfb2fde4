"""Schemas of an audit's status and of the query of the audit list."""

import re
from datetime import UTC, datetime
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields
from marshmallow.validate import OneOf, Range

from service.models.audits.audits import SOURCES, STATUSES
from service.models.calls.account_audits import DEFAULT_WINDOW, WINDOWS
from service.web.schemas.cursors import CursorField, Rows, find_cursor
from service.web.schemas.ingest import audit_id_field, described, required

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
        metadata=described("The days (UTC) that end with your newest call: 7, 30 or 90."),
    )


class AccountAuditSchema(Schema):
    audit_id = audit_id_field()
    status_url = required(fields.Url, "Where to poll the status.")


class SpanImportSchema(Schema):
    calls = required(fields.Integer, "Number of calls in spans that were waiting to be imported.")


PROJECTIONS: Final = ("good", "rough", "very rough", "none")


def _nullable(description: str) -> dict[str, Any]:
    """Return the arguments of a field that is null until computed, and in older audits."""
    metadata = described(f"{description} Null until computed, and in older audits.")
    return {"required": True, "allow_none": True, "metadata": metadata}


class AuditSummarySchema(Schema):
    """Counts and dollars only. Totals are 0 until they are computed."""

    id = audit_id_field()
    status = status_field()
    created_at = required(Moment, "When the batch or file was accepted, in UTC.")
    source = required(
        fields.String,
        "What was audited: a batch (`ingest`), a file (`upload`), or the calls of the account"
        " over all of them (`account`).",
        validate=OneOf(SOURCES),
    )
    records = required(
        fields.Integer,
        "Number of audited calls. Until the audit is done, of valid rows: a call that was"
        " logged more than once is then counted once. The report has the difference in"
        " `echoes_dropped`.",
    )
    observed_days = required(
        fields.Integer, "Days (UTC) from the first call to the last, inclusive."
    )
    total_spend_usd = required(fields.Float, "Cost of the priced calls in US dollars.")
    projected_spend_usd = required(fields.Float, "Spend projected to 30 days, in US dollars.")
    savings_pct = required(
        fields.Float,
        "Share of verified and estimated savings in the spend, 0 to 100. Overlaps are counted"
        " once.",
    )
    equiv_spend = required(
        fields.Boolean,
        "Whether some of the spend is a list-price equivalent and not a bill: calls of"
        " flat-rate plans, or of model providers without prices of their own.",
    )
    findings = required(fields.Integer, "Number of findings.", attribute="findings_count")
    projection = fields.String(
        **_nullable(
            "How sure monthly figures are: `good`, `rough`, `very rough`, or `none`: then they are"
            " those of the period itself."
        ),
        validate=OneOf(PROJECTIONS),
    )
    span_days = fields.Float(
        **_nullable("Days that the calls cover, without calls far from all others.")
    )
    window_start = Moment(
        **_nullable("Start of the window that monthly figures are projected from, in UTC.")
    )
    monthly_factor = fields.Float(
        **_nullable("Monthly figures are those of the window, times this factor.")
    )
    verified_savings_usd = fields.Float(
        **_nullable("Avoidable spend in 30 days that follows from billed counts or equal hashes.")
    )
    estimated_savings_usd = fields.Float(
        **_nullable(
            "Further avoidable spend in 30 days, by stated assumptions. `savings_pct` is the share"
            " of verified and estimated savings."
        )
    )
    estimated_savings_low_usd = fields.Float(**_nullable("Low end of `estimated_savings_usd`."))
    estimated_savings_high_usd = fields.Float(**_nullable("High end of `estimated_savings_usd`."))
    conditional_savings_usd = fields.Float(
        **_nullable(
            "Further savings in 30 days if cheaper models pass your own evaluation. In no other"
            " figure."
        )
    )
    conditional_savings_low_usd = fields.Float(**_nullable("Low end of `conditional_savings_usd`."))
    conditional_savings_high_usd = fields.Float(
        **_nullable("High end of `conditional_savings_usd`, with wider limits.")
    )


def columns_of(schema: type[Schema]) -> tuple[str, ...]:
    """Return the columns that a list reads: those that its schema shows."""
    return tuple(field.attribute or name for name, field in schema().fields.items())


class AuditListSchema(Schema):
    audits = required(Rows, "Your audits, newest first.", fields.Nested(AuditSummarySchema))
    next_cursor = fields.String(
        metadata=described("Pass it as `cursor` to get the next page. Absent on the last page.")
    )


class FindingSchema(Schema):
    id = required(fields.String, "Unique within the audit.")
    detector = required(fields.String, "The detector's ID, for example `d1_model_overkill`.")
    route = required(fields.String, "The `tag`, or else the `endpoint`, or else the model.")
    severity = required(fields.String, "`high`, `medium` or `low`, by monthly dollars.")
    confidence = required(
        fields.String,
        "`VERIFIED` by billed counts or equal hashes, `ESTIMATED` from a stated assumption,"
        " `CONDITIONAL` on your own evaluation of a cheaper model, or `INFORMATIONAL` without a"
        " dollar figure.",
    )
    monthly_cost_impact_usd = required(
        fields.Float, "Potential savings in 30 days from this finding alone, in US dollars."
    )
    fix = required(fields.String, "The recommended change.")
    impact_low = fields.Float(**_nullable("Low end of `monthly_cost_impact_usd`."))
    impact_high = fields.Float(**_nullable("High end of `monthly_cost_impact_usd`."))
    first_seen = Moment(**_nullable("Time of the first call, in UTC."))
    last_seen = Moment(**_nullable("Time of the last call, in UTC."))


class FindingListSchema(Schema):
    audit_id = audit_id_field()
    findings = required(
        Rows,
        "Ranked by monthly impact. Potential savings overlap and don't add up.",
        fields.Nested(FindingSchema),
    )
