"""Schemas of finished audits and of their findings."""

from typing import Any, Final

from marshmallow import Schema, fields
from marshmallow.validate import OneOf

from service.models.audits.audits import SOURCES
from service.web.schemas.audits import Moment, status_field
from service.web.schemas.ingest import audit_id_field, described

PROJECTIONS: Final = ("good", "rough", "very rough", "none")


def _nullable(description: str) -> dict[str, Any]:
    """Return the arguments of a field that is null until computed, and in older audits."""
    metadata = described(f"{description} Null until computed, and in older audits.")
    return {"required": True, "allow_none": True, "metadata": metadata}


class AuditSummarySchema(Schema):
    """Counts and dollars only. Totals are 0 until they are computed."""

    id = audit_id_field()
    status = status_field()
    created_at = Moment(
        required=True, metadata=described("When the batch or file was accepted, in UTC.")
    )
    source = fields.String(
        required=True,
        validate=OneOf(SOURCES),
        metadata=described(
            "What was audited: a batch (`ingest`), a file (`upload`), or the calls of the account"
            " over all of them (`account`)."
        ),
    )
    records = fields.Integer(
        required=True,
        metadata=described(
            "Number of audited calls. Until the audit is done, of valid rows: a call that was"
            " logged more than once is then counted once. The report has the difference in"
            " `echoes_dropped`."
        ),
    )
    observed_days = fields.Integer(
        required=True,
        metadata=described("Days (UTC) from the first call to the last, inclusive."),
    )
    total_spend_usd = fields.Float(
        required=True, metadata=described("Cost of the priced calls in US dollars.")
    )
    projected_spend_usd = fields.Float(
        required=True, metadata=described("Spend projected to 30 days, in US dollars.")
    )
    savings_pct = fields.Float(
        required=True,
        metadata=described(
            "Share of verified and estimated savings in the spend, 0 to 100. Overlaps are counted"
            " once."
        ),
    )
    equiv_spend = fields.Boolean(
        required=True,
        metadata=described(
            "Whether some of the spend is a list-price equivalent and not a bill: calls of"
            " flat-rate plans, or of model providers without prices of their own."
        ),
    )
    findings = fields.Integer(
        required=True, attribute="findings_count", metadata=described("Number of findings.")
    )
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


class AuditListSchema(Schema):
    audits = fields.List(
        fields.Nested(AuditSummarySchema),
        required=True,
        metadata=described("Your audits, newest first."),
    )
    next_cursor = fields.String(
        metadata=described("Pass it as `cursor` to get the next page. Absent on the last page.")
    )


class FindingSchema(Schema):
    id = fields.String(required=True, metadata=described("Unique within the audit."))
    detector = fields.String(
        required=True, metadata=described("The detector's ID, for example `d1_model_overkill`.")
    )
    route = fields.String(
        required=True,
        metadata=described("The `tag`, or else the `endpoint`, or else the model."),
    )
    severity = fields.String(
        required=True, metadata=described("`high`, `medium` or `low`, by monthly dollars.")
    )
    confidence = fields.String(
        required=True,
        metadata=described(
            "`VERIFIED` by billed counts or equal hashes, `ESTIMATED` from a stated assumption,"
            " `CONDITIONAL` on your own evaluation of a cheaper model, or `INFORMATIONAL` without a"
            " dollar figure."
        ),
    )
    monthly_cost_impact_usd = fields.Float(
        required=True,
        metadata=described("Potential savings in 30 days from this finding alone, in US dollars."),
    )
    fix = fields.String(required=True, metadata=described("The recommended change."))
    impact_low = fields.Float(**_nullable("Low end of `monthly_cost_impact_usd`."))
    impact_high = fields.Float(**_nullable("High end of `monthly_cost_impact_usd`."))
    first_seen = Moment(**_nullable("Time of the first call, in UTC."))
    last_seen = Moment(**_nullable("Time of the last call, in UTC."))


class FindingListSchema(Schema):
    audit_id = audit_id_field()
    findings = fields.List(
        fields.Nested(FindingSchema),
        required=True,
        metadata=described("Ranked by monthly impact. Potential savings overlap and don't add up."),
    )
