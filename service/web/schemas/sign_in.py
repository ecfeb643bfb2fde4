"""Schemas for sign-in and early access."""

from typing import Any

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError, fields
from marshmallow.exceptions import SCHEMA

from service.errors import InvalidRequestError
from service.mail.addresses import MAX_LENGTH, find_address
from service.web.schemas.ingest import required

_ADDRESS_EXPECTED = "must be an email address"


class EmailAddress(fields.String):
    """An email address, loaded in its stored form. Error messages never repeat it."""

    default_error_messages = {
        "invalid": _ADDRESS_EXPECTED,
        "required": _ADDRESS_EXPECTED,
        "null": _ADDRESS_EXPECTED,
    }

    def __init__(self) -> None:
        described = {
            "format": "email",
            "maxLength": MAX_LENGTH,
            "description": "Your email address.",
        }
        super().__init__(required=True, metadata=described)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        address = find_address(super()._deserialize(value, attr, data, **kwargs))
        if address is None:
            raise self.make_error("invalid")
        return address


class EarlyAccessSchema(Schema):
    class Meta:
        unknown = RAISE

    email = EmailAddress()

    def handle_error(self, error: ValidationError, data: Any, **_options: Any) -> None:
        """Describe the expected body if it isn't an object, because then no field can be named."""
        if SCHEMA in error.messages_dict:
            raise InvalidRequestError("Send a JSON object with the field email.") from error


class MagicLinkSchema(EarlyAccessSchema):
    class Meta:
        unknown = EXCLUDE  # a form has its CSRF token as well

    next = fields.String(
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be a path on this site"},
        metadata={"description": "Where to go after sign-in: a path on this site, or ignored."},
    )


class VerifyQuerySchema(Schema):
    token = required(
        fields.String,
        "The token from the emailed link.",
        error_messages={name: "is missing" for name in ("required", "null", "invalid")},
    )


class VerifySchema(VerifyQuerySchema):
    class Meta:
        unknown = EXCLUDE  # a form has its CSRF token as well

    def handle_error(self, error: ValidationError, data: Any, **_options: Any) -> None:
        """Describe the expected body if it isn't an object, because then no field can be named."""
        if SCHEMA in error.messages_dict:
            raise InvalidRequestError("Send a JSON object with the field token.") from error


class MessageSchema(Schema):
    message = required(fields.String, "Human-readable.")
