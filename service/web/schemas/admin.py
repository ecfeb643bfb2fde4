"""Response schemas of the admin endpoints."""

from decimal import Decimal
from typing import Any, Final

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError, fields, post_load, validates_schema
from marshmallow.validate import Length, OneOf, Range, Regexp

from service.mail.addresses import find_address
from service.models.audits.audits import SOURCES, STATUSES
from service.models.billing.payments import CREDIT, PAYMENT_KINDS, SUBSCRIPTION
from service.models.identity.accounts import COMP, KEY_LIMITS
from service.models.operations.admin_actions import ADMIN_ACTIONS
from service.payments import ManualPayment
from service.web.schemas.audits import Moment
from service.web.schemas.ingest import required

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
    wake_ups = required(
        fields.Dict,
        "Waiting jobs in Redis by queue. Null while Redis is down.",
        keys=fields.String(),
        values=fields.Integer(),
        allow_none=True,
    )
    mails = fields.List(fields.Nested(WaitingSchema), required=True)
    failed_mails = fields.Integer(required=True)
    stored_data = required(
        fields.List,
        "The accounts that store most, measured once a day.",
        fields.Nested(StoredLineSchema),
    )
    next_pages = fields.Dict(keys=fields.String(), values=fields.Integer(), required=True)


class PurgedSchema(Schema):
    audit_id = fields.String(required=True)
    raw_purged_at = Moment(required=True)
    is_repeat = fields.Boolean(required=True)


class SignedOutSchema(Schema):
    account_id = fields.String(required=True)
    sessions = required(fields.Integer, "How many were ended.")


class RerunSchema(Schema):
    audit_id = fields.String(required=True)
    status = fields.String(required=True, validate=Length(min=1))


class MarkedPaidSchema(Schema):
    payment_id = fields.String(required=True)
    account_id = required(
        fields.String, "Null until someone signs in with the email address.", allow_none=True
    )
    is_repeat = fields.Boolean(required=True)


_PAID_PLANS: Final = tuple(plan for plan, keys in KEY_LIMITS.items() if keys)
_MAX_AMOUNT: Final = Decimal(10) ** 12
_DECIMAL_PLACES: Final = 4
_REQUIRED: Final = "is required:"


def _messages(expected: str) -> dict[str, Any]:
    """Return the error messages of a field: all of them say what it should be."""
    return {name: f"must be {expected}" for name in ("invalid", "null", "special", "too_large")} | {
        "required": f"{_REQUIRED} {expected}"
    }


def _one_of(*choices: str) -> OneOf:
    return OneOf(choices, error=f"must be one of {', '.join(choices)}")


def _is_amount(amount: Decimal) -> None:
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_DECIMAL_PLACES:
        raise ValidationError(f"must have at most {_DECIMAL_PLACES} decimal places")


def _is_address(text: str) -> None:
    if find_address(text) is None:
        raise ValidationError("must be an email address")


class MarkPaidSchema(Schema):
    """A payment made elsewhere, or a gift: provider `comp` and amount 0."""

    class Meta:
        unknown = RAISE

    email = fields.String(
        required=True, validate=_is_address, error_messages=_messages("the payer's email address")
    )
    provider = fields.String(
        required=True,
        validate=Regexp(r"[a-z][a-z0-9_-]{0,31}\Z", error="must be a lowercase name"),
        error_messages=_messages("a lowercase name, such as stripe, paddle, invoice or comp"),
    )
    reference = required(
        fields.String,
        "The same provider and reference count as one payment.",
        validate=Regexp(r"[!-~]{1,200}\Z", error="must be 1 to 200 printable characters"),
        error_messages=_messages("the payment provider's reference for this payment"),
    )
    amount = fields.Decimal(
        required=True,
        allow_nan=False,
        validate=[
            Range(min=0, max=_MAX_AMOUNT, error=f"must be from 0 to {_MAX_AMOUNT:,}"),
            _is_amount,
        ],
        error_messages=_messages("a number in whole currency units"),
        metadata={"minimum": 0, "maximum": int(_MAX_AMOUNT)},
    )
    currency = fields.String(
        load_default="USD",
        # Without \Z, which JSON Schema does not know; the lookahead excludes a last line break.
        validate=Regexp(r"^[A-Za-z]{3}$(?!\n)", error="must be a three-letter code"),
        error_messages=_messages("a three-letter code, such as USD"),
    )
    kind = fields.String(
        load_default=CREDIT,
        validate=_one_of(*PAYMENT_KINDS),
        error_messages=_messages(" or ".join(PAYMENT_KINDS)),
    )
    plan = fields.String(
        load_default=None,
        allow_none=True,
        validate=_one_of(*_PAID_PLANS),
        error_messages=_messages(" or ".join(_PAID_PLANS)),
        metadata={"description": "Required if the kind is `subscription`, otherwise not allowed."},
    )

    @validates_schema
    def _fits_together(self, data: dict[str, Any], **_options: Any) -> None:
        if data["kind"] == SUBSCRIPTION and data["plan"] is None:
            raise ValidationError(f"{_REQUIRED} {' or '.join(_PAID_PLANS)}", "plan")
        if data["kind"] != SUBSCRIPTION and data["plan"] is not None:
            raise ValidationError("is only allowed if the kind is subscription", "plan")
        if data["provider"] == COMP and data["amount"] != 0:
            raise ValidationError("must be 0 if the provider is comp", "amount")

    @post_load
    def _as_payment(self, data: dict[str, Any], **_options: Any) -> ManualPayment:
        return ManualPayment(**{**data, "currency": data["currency"].upper()})
