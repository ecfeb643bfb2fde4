"""What administrators send and read, and how it is described in /openapi.json."""

from decimal import Decimal
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, validates_schema
from marshmallow.validate import Length, OneOf, Range, Regexp

from service.mail.addresses import find_address
from service.models.accounts import COMP, KEY_LIMITS
from service.models.admin_acts import ACTS
from service.models.audits import SOURCES, STATUSES
from service.models.billing import CREDIT, PAYMENT_KINDS, SUBSCRIPTION
from service.payments import ManualPayment

_MAX_PAGE: Final = 1_000
_PAID_PLANS: Final = tuple(plan for plan, keys in KEY_LIMITS.items() if keys)
_MAX_AMOUNT: Final = Decimal(10) ** 12
_DECIMAL_PLACES: Final = 4
_NEEDED: Final = "is needed:"


def _told(expected: str) -> dict[str, Any]:
    """One message for whatever is wrong with a field: what it should be."""
    return {name: f"must be {expected}" for name in ("invalid", "null", "special", "too_large")} | {
        "required": f"{_NEEDED} {expected}"
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
    """A payment that was made elsewhere, or a gift: provider `comp` and amount 0."""

    class Meta:
        unknown = EXCLUDE

    email = fields.String(
        required=True, validate=_is_address, error_messages=_told("the payer's email address")
    )
    provider = fields.String(
        required=True,
        validate=Regexp(r"[a-z][a-z0-9_-]{0,31}\Z", error="must be a lowercase name"),
        error_messages=_told("a lowercase name, such as stripe, paddle, invoice or comp"),
    )
    reference = fields.String(
        required=True,
        validate=Regexp(r"[!-~]{1,200}\Z", error="must be 1 to 200 printable characters"),
        error_messages=_told("what names this payment at its provider"),
        metadata={"description": "The same provider and reference twice are one payment."},
    )
    amount = fields.Decimal(
        required=True,
        allow_nan=False,
        validate=[
            Range(min=0, max=_MAX_AMOUNT, error=f"must be from 0 to {_MAX_AMOUNT:,}"),
            _is_amount,
        ],
        error_messages=_told("a number, in whole units of the currency"),
    )
    currency = fields.String(
        load_default="USD",
        validate=Regexp(r"[A-Za-z]{3}\Z", error="must be a code of three letters"),
        error_messages=_told("a code of three letters, such as USD"),
    )
    kind = fields.String(
        load_default=CREDIT,
        validate=_one_of(*PAYMENT_KINDS),
        error_messages=_told(" or ".join(PAYMENT_KINDS)),
    )
    plan = fields.String(
        load_default=None,
        allow_none=True,
        validate=_one_of(*_PAID_PLANS),
        error_messages=_told(" or ".join(_PAID_PLANS)),
        metadata={"description": "Needed with the kind `subscription`, and only then."},
    )

    @validates_schema
    def _fits_together(self, data: dict[str, Any], **_options: Any) -> None:
        if data["kind"] == SUBSCRIPTION and data["plan"] is None:
            raise ValidationError(f"{_NEEDED} {' or '.join(_PAID_PLANS)}", "plan")
        if data["kind"] != SUBSCRIPTION and data["plan"] is not None:
            raise ValidationError("goes with the kind subscription alone", "plan")
        if data["provider"] == COMP and data["amount"] != 0:
            raise ValidationError("must be 0 where the provider is comp", "amount")

    @post_load
    def _as_payment(self, data: dict[str, Any], **_options: Any) -> ManualPayment:
        return ManualPayment(**{**data, "currency": data["currency"].upper()})


class PagesSchema(Schema):
    """Which page of each list, counted from 1."""

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
    attempts = fields.Integer(required=True, attribute="starts")
    source = fields.String(required=True, validate=OneOf(SOURCES))
    email = fields.String(required=True)
    created_at = fields.AwareDateTime(required=True, format="iso")
    age_seconds = fields.Integer(required=True)
    records = fields.Integer(required=True)
    size_bytes = fields.Integer(required=True, allow_none=True)
    raw_purged_at = fields.AwareDateTime(required=True, allow_none=True, format="iso")
    error = fields.String(required=True, allow_none=True)


class AccountLineSchema(Schema):
    id = fields.String(required=True)
    email = fields.String(required=True)
    plan = fields.String(required=True)
    free_credits = fields.Integer(required=True)
    created_at = fields.AwareDateTime(required=True, format="iso")


class EventLineSchema(Schema):
    provider = fields.String(required=True)
    event_id = fields.String(required=True)
    type = fields.String(required=True)
    occurred_at = fields.AwareDateTime(required=True, format="iso")
    received_at = fields.AwareDateTime(required=True, format="iso")


class EarlyAccessLineSchema(Schema):
    email = fields.String(required=True)
    asked_at = fields.AwareDateTime(required=True, format="iso")


class ActLineSchema(Schema):
    act = fields.String(required=True, validate=OneOf(ACTS))
    target = fields.String(required=True)
    via = fields.String(required=True)
    acted_at = fields.AwareDateTime(required=True, format="iso")


class WaitingSchema(Schema):
    kind = fields.String(required=True)
    status = fields.String(required=True)
    number = fields.Integer(required=True)
    oldest_age_seconds = fields.Integer(required=True)


class OverviewSchema(Schema):
    """Everything that the page shows. `next_pages` names the lists that go on."""

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
        metadata={"description": "What waits in Redis, by queue; null while that is away."},
    )
    mails = fields.List(fields.Nested(WaitingSchema), required=True)
    failed_mails = fields.Integer(required=True)
    next_pages = fields.Dict(keys=fields.String(), values=fields.Integer(), required=True)


class PurgedSchema(Schema):
    audit_id = fields.String(required=True)
    raw_purged_at = fields.AwareDateTime(required=True, format="iso")
    is_repeat = fields.Boolean(required=True)


class RerunSchema(Schema):
    audit_id = fields.String(required=True)
    status = fields.String(required=True, validate=Length(min=1))


class MarkedPaidSchema(Schema):
    payment_id = fields.String(required=True)
    account_id = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "Null until somebody signs in with the address."},
    )
    is_repeat = fields.Boolean(required=True)
