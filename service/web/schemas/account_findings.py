"""Schemas of the findings of an account."""

import re
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields, post_load
from marshmallow.validate import OneOf

from service.models.calls.account_findings import STATES
from service.models.calls.finding_list import FILTERS, KEYS, UNRESOLVED_NAME, FindingFilter
from service.web.schemas.audits import Moment, limit_field
from service.web.schemas.cursors import CursorField, Rows, find_finding_cursor
from service.web.schemas.ingest import described, required
from service.web.schemas.spend import CSV, JSON

# What a label, a detector or an assignee can be.
_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")
_FORMATS: Final = (JSON, CSV)
_STATES_EXPECTED: Final = f"must be one of {', '.join(FILTERS)}"


def _text(description: str) -> fields.String:
    return fields.String(required=True, metadata=described(description))


def is_value(text: str) -> bool:
    """Check whether a finding could have this label or assignee."""
    return _VALUE.fullmatch(text) is not None


class _Value(fields.String):
    """A value that a column of the listed findings must have."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not is_value(text):
            raise ValidationError("must have 1 to 200 characters, without control characters")
        return text


def _only(what: str) -> _Value:
    limits = {"minLength": 1, "maxLength": 200}
    return _Value(metadata={**described(f"Only findings {what}."), **limits})


class AccountFindingQuerySchema(Schema):
    limit = limit_field("Maximum number of findings to return.")
    state = fields.String(
        load_default=UNRESOLVED_NAME,
        validate=OneOf(tuple(FILTERS), error=_STATES_EXPECTED),
        metadata=described(
            "Only findings in this state; `unresolved` ones are open, acknowledged or returned."
        ),
    )
    detector = _only("of this detector")
    route = _only("of this route")
    model = _only("of this model")
    assignee = _only("with this assignee, exactly as typed")
    format = fields.String(
        load_default=JSON,
        validate=OneOf(_FORMATS, error=f"must be one of {', '.join(_FORMATS)}"),
        metadata=described(
            "`csv` returns all findings as a table; `limit` and `cursor` don't apply."
        ),
    )
    cursor = CursorField(
        find_finding_cursor,
        metadata=described("The `next_cursor` of the previous page, with the same filters."),
    )

    @post_load
    def select(self, query: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the filter."""
        only = {name: query[name] for name in KEYS if name in query}
        return {**query, "filter": FindingFilter(state=query["state"], only=only)}


class AccountFindingSchema(Schema):
    """A finding of the account's calls. The same waste keeps its ID over all audits."""

    id = _text("The same in every audit of the account.")
    state = required(
        fields.String,
        "Where it stands; `returned` happened again after it was fixed.",
        validate=OneOf(STATES),
    )
    detector = _text(
        "The detector that found it; `provider_totals` for what provider reports prove."
    )
    kind = _text("The kind of waste, of those of its detector.")
    route = _text("The tag or endpoint of its calls, or else their model.")
    provider = _text("The model provider of its calls.")
    model = _text("The model of its calls.")
    severity = _text("high, medium or low, by monthly savings.")
    confidence = _text("How sure the savings are: VERIFIED, ESTIMATED or CONDITIONAL.")
    monthly_cost_impact_usd = required(
        fields.Float,
        "Potential savings in 30 days; 0 if the latest audit lacks it.",
        attribute="monthly_usd",
    )
    observed_cost_impact_usd = required(
        fields.Float,
        "What its calls could have saved in the window of that audit.",
        attribute="observed_usd",
    )
    is_monthly = required(
        fields.Boolean,
        "False if that audit had too little data to project a month: both amounts are then"
        " those of its window.",
    )
    calls = required(fields.Integer, "Number of flagged calls.")
    fix = _text("What to change.")
    first_seen = required(Moment, "Its first flagged call, in UTC.")
    last_seen = required(Moment, "Its last flagged call, in UTC.")
    audit_id = _text("The latest audit of the account that has it.")
    finding_id = _text("Its ID in the report of that audit.")
    assignee = _text("Who fixes it: a name or an address, as typed; empty without one.")
    note = _text("What was noted about it; may be empty.")
    fixed_at = Moment(metadata=described("When it was fixed. Present once it is."))
    silent_until = Moment(
        metadata=described("When it opens again, if it was dismissed for a time.")
    )
    realized_savings_usd = fields.Float(
        metadata=described("What the fix has saved so far. Present from the first day after it.")
    )
    realized_monthly_usd = fields.Float(metadata=described("What the fix saves in 30 days."))


class AccountFindingListSchema(Schema):
    findings = required(
        Rows, "The findings, most savings first.", fields.Nested(AccountFindingSchema)
    )
    next_cursor = fields.String(metadata=described("Present if there are more findings."))
