"""Schemas of comparisons: two audits or two periods, and the response."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load
from marshmallow.validate import Length, OneOf, Range

from detectors.contract import CHANGE_STATUSES, Span, SpendChange
from detectors.wording.figures import is_change
from service.models.base import utc_now
from service.models.calls.spend import MAX_DAYS, Period, Periods
from service.operations.comparing import KINDS, Compared
from service.web.schemas.audits import limit_field
from service.web.schemas.ingest import described, required
from service.web.schemas.spend import DEFAULT_DAYS, day_field


@dataclass(frozen=True)
class AuditPair:
    before: str
    after: str


class ImpossibleError(ValueError):
    """These days or audits can't be compared.

    The message is for people; `reason` says what is wrong with a parameter, `field`.
    """

    def __init__(self, message: str, field: str, reason: str) -> None:
        super().__init__(message)
        self.field, self.reason = field, reason


def choose(given: Mapping[str, Any], today: date) -> AuditPair | Periods:
    """Return what to compare: two audits, or two periods with their defaults.

    The later period is the last 30 days by default, the earlier period as many days before it.
    """
    audits = [given.get(name) for name in ("before", "after")]
    if any(audits):
        if any(name in given for name in ("first", "last", "before_first", "before_last")):
            raise ImpossibleError(
                "Compare either two audits or two periods.",
                "before" if audits[0] else "after",
                "must not be given with days",
            )
        if not all(audits):
            missing = "after" if audits[0] else "before"
            raise ImpossibleError("Choose two audits.", missing, "must name the other audit")
        return AuditPair(str(audits[0]), str(audits[1]))
    last = given.get("last", today)
    later = _period(given.get("first", last - timedelta(days=DEFAULT_DAYS - 1)), last, "from")
    before_last = given.get("before_last", later.first - timedelta(days=1))
    before_first = given.get("before_first", before_last - timedelta(days=later.days - 1))
    return _period(before_first, before_last, "before_from"), later


def _period(first: date, last: date, field: str) -> Period:
    period = Period(first, last)
    if first > last:
        raise ImpossibleError(
            "The first day must not be after the last.", field, "must not be after its last day"
        )
    if period.days > MAX_DAYS:
        raise ImpossibleError(
            f"Choose at most {MAX_DAYS} days.",
            field,
            f"must be less than {MAX_DAYS} days before its last day",
        )
    return period


def _audit_field(text: str) -> fields.String:
    return fields.String(validate=Length(1, 200), metadata=described(text))


class CompareQuerySchema(Schema):
    before = _audit_field("The ID of the earlier audit. With `after`, instead of days.")
    after = _audit_field("The ID of the later audit.")
    first = day_field("from", "The later period's first day (UTC).", "2026-03-01")
    last = day_field(
        "to", "The later period's last day, inclusive. Today, by default.", "2026-03-30"
    )
    before_first = day_field(
        "before_from",
        "The earlier period's first day. By default, it has as many days as the later period.",
        "2026-01-30",
    )
    before_last = day_field(
        "before_to",
        "The earlier period's last day. By default, the day before the later period.",
        "2026-02-28",
    )
    limit = limit_field("Maximum number of routes, of models and of findings to return.")

    @post_load
    def select(self, query: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add what is compared."""
        try:
            return {**query, "wanted": choose(query, utc_now().date())}
        except ImpossibleError as error:
            raise ValidationError(error.reason, error.field) from error


def _dollars(text: str) -> fields.Float:
    return fields.Float(required=True, metadata=described(text))


class SpanSchema(Schema):
    """One of the audits or periods."""

    audit_id = fields.String(metadata=described("The audit's ID. Absent for a period."))
    first = fields.Date(
        data_key="from",
        metadata=described("The first day (UTC): of the period, or with calls."),
    )
    last = fields.Date(data_key="to", metadata=described("The last day (UTC)."))
    days = required(fields.Integer, "The number of days covered.", validate=Range(min=1))
    calls = required(fields.Integer, "Number of calls.")
    spend_usd = _dollars("The whole spend, in US dollars.")


class _ChangeSchema(Schema):
    before_usd = _dollars("Spend before, per day if `is_per_day`.")
    after_usd = _dollars("Spend after, per day if `is_per_day`.")
    change_usd = _dollars("The difference.")
    change_pct = fields.Float(
        metadata=described(
            "The difference in percent. Absent without spend before, where it is less than $1, and "
            "where the earlier period isn't covered; `notes` says so."
        )
    )


class TotalChangeSchema(_ChangeSchema):
    """The change of all spend."""


class RouteChangeSchema(_ChangeSchema):
    """The change of one route's spend."""

    route = required(fields.String, "The `tag`, or else the `endpoint`; may be empty.")


class ModelChangeSchema(_ChangeSchema):
    """The change of one model's spend."""

    provider = required(fields.String, "The model provider.")
    model = required(fields.String, "The model ID as billed.")


def _text(text: str) -> fields.String:
    return fields.String(required=True, metadata=described(text))


class ComparedFindingSchema(Schema):
    """A finding of either audit or period."""

    status = required(
        fields.String,
        "`gone`: no longer found, and its route has no calls; else `fixed`.",
        validate=OneOf(CHANGE_STATUSES),
    )
    detector = _text("The detector that found it.")
    kind = _text("The kind of waste, of those of its detector.")
    route = _text("The tag or endpoint of its calls, or else their model.")
    provider = _text("The model provider of its calls.")
    model = _text("The model of its calls.")
    before_usd = _dollars("Potential savings before: per month of audits, else as spend is.")
    after_usd = _dollars("Potential savings after.")


class ComparisonSchema(Schema):
    kind = required(fields.String, "What is compared.", validate=OneOf(KINDS))
    before = required(fields.Nested, "The earlier one.", SpanSchema)
    after = required(fields.Nested, "The later one.", SpanSchema)
    is_per_day = required(
        fields.Boolean, "Whether changes are per day, because the numbers of days differ."
    )
    total = required(fields.Nested, "The change of all spend.", TotalChangeSchema)
    routes = required(
        fields.List, "Routes by the size of their change.", fields.Nested(RouteChangeSchema)
    )
    models = required(
        fields.List, "Models by the size of their change.", fields.Nested(ModelChangeSchema)
    )
    findings = fields.List(
        fields.Nested(ComparedFindingSchema),
        metadata=described(
            "Findings by status. Present if the token has the scope `read:findings` too."
        ),
    )
    notes = required(
        fields.List, "What to know before reading the figures, in English.", fields.String()
    )


def _span(span: Span) -> dict[str, Any]:
    """Return the span; an audit without calls has no days."""
    found = {name: getattr(span, name) for name in ("first", "last", "days", "calls", "spend_usd")}
    return {name: value for name, value in found.items() if value is not None}


def describe(compared: Compared) -> dict[str, Any]:
    """Return what `ComparisonSchema` describes, without the IDs of audits."""
    return {
        "before": _span(compared.before),
        "after": _span(compared.after),
        "kind": compared.kind,
        "is_per_day": compared.is_per_day,
        "total": _change(compared, compared.total),
        "routes": [_change(compared, each, "route") for each in compared.routes],
        "models": [_change(compared, each, "provider", "model") for each in compared.models],
        "findings": compared.findings,
        "notes": compared.notes,
    }


def _change(compared: Compared, change: SpendChange, *names: str) -> dict[str, Any]:
    dollars = {
        "before_usd": change.before_usd,
        "after_usd": change.after_usd,
        "change_usd": change.change_usd,
    }
    found = dict(zip(names, change.labels, strict=True)) | dollars
    is_compared = not change.change_usd or is_change(
        change.after_usd, change.before_usd, compared.change_days
    )
    if change.change_pct is None or compared.gap or not is_compared:
        return found
    return found | {"change_pct": change.change_pct}
