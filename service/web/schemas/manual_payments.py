"""Validate payments that administrators enter, on the web and in commands."""

from decimal import Decimal
from typing import Any, Final

from marshmallow import RAISE, Schema, ValidationError, fields, post_load, validates_schema
from marshmallow.validate import OneOf, Range, Regexp

from service.mail.addresses import find_address
from service.models.billing.payments import CREDIT, PAYMENT_KINDS, SUBSCRIPTION
from service.models.identity.accounts import COMP, KEY_LIMITS
from service.payments import ManualPayment

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
    reference = fields.String(
        required=True,
        validate=Regexp(r"[!-~]{1,200}\Z", error="must be 1 to 200 printable characters"),
        error_messages=_messages("the payment provider's reference for this payment"),
        metadata={"description": "The same provider and reference count as one payment."},
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
