"""Schemas of plan usage: the days asked for, and what plans include of them."""

from datetime import datetime, timedelta
from typing import Any, Final

from marshmallow import RAISE, Schema, ValidationError, fields, post_load, validates
from marshmallow.validate import Length, Range

from detectors.contract import FIRST_INSTANT, LAST_INSTANT
from service.models.base import utc_now
from service.models.calls.spend import MAX_DAYS
from service.web.schemas.audits import Moment
from service.web.schemas.ingest import described, label, required
from service.web.schemas.spend import DEFAULT_DAYS, PlanUsageSchema, day_field

MOST_LIMITS: Final = 20
MOST_MINUTES: Final = 60 * 24 * 31
MOST_PERCENT: Final = 1_000  # beyond 100 where a plan lets its users go on


class PlanUsageQuerySchema(Schema):
    first = day_field(
        "from",
        "The first day (UTC). By default, the last day and the 29 days before it.",
        "2026-03-01",
    )
    last = day_field("to", "The last day (UTC), inclusive. By default, today.", "2026-03-30")

    @post_load
    def complete(self, query: dict[str, Any], **_: Any) -> dict[str, Any]:
        last = query.get("last", utc_now().date())
        first = query.get("first", last - timedelta(days=DEFAULT_DAYS - 1))
        if first > last:
            raise ValidationError("must not be after to", "from")
        if (last - first).days >= MAX_DAYS:
            raise ValidationError(f"must be less than {MAX_DAYS} days before to", "from")
        return {"days": (first, last)}


def _dollars(text: str) -> fields.Float:
    return fields.Float(required=True, validate=Range(min=0), metadata=described(text))


class PlanGroupSchema(PlanUsageSchema):
    name = required(fields.String, "The tool, project, environment or model; may be empty.")


class PlanWeekSchema(PlanUsageSchema):
    monday = required(fields.Date, "The week's first day.")


class PlanWindowSchema(Schema):
    provider = required(fields.String, "The tool.")
    environment = required(fields.String, "The environment: a person or a machine; may be empty.")
    start = required(Moment, "The full hour of the window's first call (UTC).")
    end = required(Moment, "Five hours later.")
    calls = required(fields.Integer, "Number of calls.")
    tokens = required(fields.Integer, "Input and output tokens.")
    value_usd = _dollars("What the calls would have cost through the API, in US dollars.")


class PlanLimitSchema(Schema):
    class Meta:
        unknown = RAISE

    provider = label("provider", "The tool, such as `claude-code`.", required=True)
    environment = label("label", "A person or a machine.", load_default="")
    window_minutes = required(
        fields.Integer,
        "Length of the window: 300 for five hours, 10,080 for a week.",
        strict=True,
        validate=Range(min=1, max=MOST_MINUTES),
    )
    resets_at = required(fields.AwareDateTime, "When the window ends.")
    used_percent = required(
        fields.Float, "How much of the window is used.", validate=Range(min=0, max=MOST_PERCENT)
    )

    @validates("resets_at")
    def check_time(self, value: datetime, **_: Any) -> None:
        if not FIRST_INSTANT <= value < LAST_INSTANT:
            raise ValidationError("must be from 2000 to 2100")


class PlanLimitsSchema(Schema):
    class Meta:
        unknown = RAISE

    limits = required(
        fields.List,
        "Windows of plans.",
        fields.Nested(PlanLimitSchema),
        validate=Length(min=1, max=MOST_LIMITS),
    )


class StoredLimitsSchema(Schema):
    limits = required(fields.Integer, "Number of windows that the request had.")


class PlanPeakSchema(Schema):
    provider = required(fields.String, "The tool.")
    environment = required(fields.String, "The person or the machine; may be empty.")
    window_minutes = required(fields.Integer, "Length of the window.")
    used_percent = required(fields.Float, "How much of the fullest window was used.")
    resets_at = required(Moment, "When that window ended or ends (UTC).")
    windows = required(fields.Integer, "Number of the windows of these days that were reported.")


class PlanWorthSchema(Schema):
    provider = required(fields.String, "The tool.")
    price_usd = _dollars("What the tool's plans cost on these days, in US dollars.")
    value_usd = _dollars(
        "The value of the tool's calls on the days that its plans cover, in US dollars."
    )
    ratio = fields.Float(
        required=True,
        allow_none=True,
        metadata=described("Value ÷ price; null if the plans cost nothing."),
    )


class PlanReportSchema(Schema):
    first = required(fields.Date, "The first day (UTC).", data_key="from")
    last = required(fields.Date, "The last day (UTC).", data_key="to")
    totals = required(fields.Nested, "All calls that plans include.", PlanUsageSchema)
    plans = required(fields.List, "By tool that has plans.", fields.Nested(PlanWorthSchema))
    tools = required(fields.List, "Most valuable first.", fields.Nested(PlanGroupSchema))
    projects = required(fields.List, "Most valuable first.", fields.Nested(PlanGroupSchema))
    environments = required(fields.List, "Most valuable first.", fields.Nested(PlanGroupSchema))
    models = required(fields.List, "Most valuable first.", fields.Nested(PlanGroupSchema))
    weeks = required(fields.List, "Newest first.", fields.Nested(PlanWeekSchema))
    windows = required(
        fields.List,
        "The most valuable five-hour windows.",
        fields.Nested(PlanWindowSchema),
    )
    window_count = required(fields.Integer, "Number of all windows that begin on these days.")
    limits = required(
        fields.List,
        "By tool, environment and length of window: the fullest of the windows of these days.",
        fields.Nested(PlanPeakSchema),
    )
