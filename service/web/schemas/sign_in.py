"""The shapes of what people send about themselves, and of the short answers to it."""

from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields
from marshmallow.exceptions import SCHEMA

from service.errors import InvalidRequestError
from service.mail.addresses import MAX_LENGTH, find_address

_ADDRESS_EXPECTED = "must be an email address"


class EmailAddress(fields.String):
    """An address, loaded in the form in which it is stored. The message never repeats it."""

    default_error_messages = {
        "invalid": _ADDRESS_EXPECTED,
        "required": _ADDRESS_EXPECTED,
        "null": _ADDRESS_EXPECTED,
    }

    def __init__(self) -> None:
        described = {
            "format": "email",
            "maxLength": MAX_LENGTH,
            "description": "An address that mail reaches.",
        }
        super().__init__(required=True, metadata=described)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        address = find_address(super()._deserialize(value, attr, data, **kwargs))
        if address is None:
            raise self.make_error("invalid")
        return address


class EarlyAccessSchema(Schema):
    class Meta:
        unknown = EXCLUDE  # its name must not be repeated

    email = EmailAddress()

    def handle_error(self, error: ValidationError, data: Any, **_options: Any) -> None:
        """Say of a body that is no object what it should be: no field can be named in it."""
        if SCHEMA in error.messages_dict:
            raise InvalidRequestError("A JSON object is expected, with email.") from error


class MagicLinkSchema(EarlyAccessSchema):
    next = fields.String(
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be a path of this site"},
        metadata={"description": "A path of this site to go on to; anything else is ignored."},
    )


class VerifyQuerySchema(Schema):
    token = fields.String(
        required=True,
        error_messages={"required": "is missing"},
        metadata={"description": "As it stands in the mailed link."},
    )


class MessageSchema(Schema):
    message = fields.String(required=True, metadata={"description": "For a person to read."})
