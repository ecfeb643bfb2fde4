"""Schemas for sending data, errors and health. `/openapi.json` is generated from them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from marshmallow import RAISE, Schema, fields
from marshmallow.validate import Length, OneOf, Range, Regexp

from detectors.contract import (
    LABEL_PATTERN,
    LEVEL_DIGITS,
    LEVELS,
    MAX_BATCH_RECORDS,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    MAX_REPORTED_USD,
    MAX_UNITS,
    PREFIX_HASH_PATTERN,
    PROVIDER_PATTERN,
    SECONDS,
    UNITS,
    V1_FIELDS,
    V2_FIELDS,
    RecordField,
)

Field = TypeVar("Field", bound=fields.Field[Any])


def described(text: str) -> Mapping[str, str]:
    return {"description": text}


def required(kind: type[Field], description: str, *values: Any, **options: Any) -> Field:
    """Return a field that every response or request has."""
    return kind(*values, required=True, metadata=described(description), **options)


def label(kind: str, description: str, **options: Any) -> fields.Field[Any]:
    """Return a field with the checks of a record's labels."""
    make, checks = _KINDS[kind]
    return make(validate=list(checks), metadata=described(description), **options)


class PaymentLinkSchema(Schema):
    provider = required(fields.String, "The payment provider, or `billing` for our billing page.")
    url = required(fields.Url, "The checkout or billing page.")


class ErrorDetailSchema(Schema):
    code = required(fields.String, "Machine-readable. Doesn't change within v1.")
    message = required(fields.String, "Safe to show to a user.")
    request_id = required(fields.String, "The same ID as in the X-Request-Id header.")
    payment_links = fields.List(
        fields.Nested(PaymentLinkSchema),
        metadata={
            "description": "At least one link to buy a credit. Present if an upload needs one."
        },
    )


class ErrorSchema(Schema):
    error = fields.Nested(ErrorDetailSchema, required=True)


def _published(pattern: str) -> str:
    r"""Return the pattern in JSON Schema's dialect, where `$` doesn't match before a newline."""
    return pattern.replace(r"\Z", "$")


def _field(field: RecordField) -> fields.Field[Any]:
    """Return the field as the API documents it."""
    kind, checks = _KINDS.get(field.kind, (fields.String, [OneOf((*field.choices, None))]))
    more_about = _ABOUT_UNITS if kind is fields.Dict else {}
    more = {"strict": True} if kind is fields.Integer else {}
    return kind(
        required=field.is_required,
        **({} if field.is_required else {"allow_none": True}),
        **({"validate": checks} if checks else {}),
        metadata={**described(field.text), **more_about},
        **more,
    )


_LEVEL: Final = fields.String(validate=Regexp(f"^[0-9a-f]{{{LEVEL_DIGITS}}}$"))
_ABOUT_UNITS: Final[Mapping[str, Any]] = {
    "maxProperties": MAX_UNITS,
    "additionalProperties": False,
    "properties": {
        name: {
            "type": "number" if name in SECONDS else "integer",
            "minimum": 0,
            "maximum": MAX_COUNT,
        }
        for name in UNITS
    },
}
_LABEL: Final = Regexp(_published(LABEL_PATTERN))
# Each kind of field, and its checks. An instant is no `date-time`, which requires an offset.
_KINDS: Final[Mapping[str, tuple[Callable[..., fields.Field[Any]], list[Any]]]] = {
    "instant": (fields.String, []),
    "provider": (fields.String, [Regexp(_published(PROVIDER_PATTERN))]),
    "model": (fields.String, [Length(min=1, max=MAX_LABEL_LENGTH), _LABEL]),
    "label": (fields.String, [Length(max=MAX_LABEL_LENGTH), _LABEL]),
    "hash": (fields.String, [Regexp(_published(PREFIX_HASH_PATTERN))]),
    "count": (fields.Integer, [Range(min=0, max=MAX_COUNT)]),
    "latency": (fields.Float, [Range(min=0, max=MAX_LATENCY_MS)]),
    "usd": (fields.Float, [Range(min=0, max=MAX_REPORTED_USD)]),
    "hashes": (partial(fields.List, _LEVEL), [Length(min=1, max=len(LEVELS))]),
    "units": (fields.Dict, []),
}


class _RecordSchema(Schema):
    class Meta:
        unknown = RAISE


class UsageRecordSchema(_RecordSchema.from_dict({f.name: _field(f) for f in V1_FIELDS})):  # type: ignore[misc]
    """One language model call as counts, times and labels. No other fields are accepted."""


class UsageRecordV2Schema(_RecordSchema.from_dict({f.name: _field(f) for f in V2_FIELDS})):  # type: ignore[misc]
    """A usage record with what the first version can't carry. No other fields are accepted.

    A part of a count must not exceed the count.
    """


def _records(schema: type[Schema]) -> fields.List[Any]:
    return fields.List(
        fields.Nested(schema),
        required=True,
        validate=Length(min=1, max=MAX_BATCH_RECORDS),
        metadata=described("The calls, in any order."),
    )


class BatchSchema(Schema):
    class Meta:
        unknown = RAISE

    records = _records(UsageRecordSchema)


class BatchV2Schema(BatchSchema):
    records = _records(UsageRecordV2Schema)


def audit_id_field() -> fields.String:
    return fields.String(required=True, metadata=described("The audit's ID."))


class AcceptedSchema(Schema):
    audit_id = audit_id_field()
    records = required(fields.Integer, "Number of accepted records.")
    replayed = required(fields.Boolean, "Always false.")


class ReplayedSchema(Schema):
    audit_id = audit_id_field()
    replayed = required(fields.Boolean, "Always true.")


class EventReceivedSchema(Schema):
    received = required(fields.Boolean, "Always true.")


class UploadedSchema(Schema):
    audit_id = audit_id_field()
    replayed = required(fields.Boolean, "Whether this is a retry.")
    status_url = required(fields.Url, "Where to poll the status.")


class HealthSchema(Schema):
    status = required(
        fields.String, "`ok` if every component is `ok`.", validate=OneOf(("ok", "degraded"))
    )
    components = fields.Dict(
        keys=fields.String(),
        values=fields.String(validate=OneOf(("ok", "down"))),
        metadata=described(
            "The state of the database, Redis and storage, for requests of the operator only."
        ),
    )
