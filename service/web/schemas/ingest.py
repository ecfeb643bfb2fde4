"""Schemas for sending data, errors and health. `/openapi.json` is generated from them."""

from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import RAISE, Schema, fields
from marshmallow.validate import Length, OneOf, Range, Regexp

from detectors.contract import (
    LABEL_PATTERN,
    MAX_BATCH_RECORDS,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    PREFIX_HASH_PATTERN,
    PROVIDER_PATTERN,
    STATUSES,
)
from detectors.formats.fields import SERVICE_TIERS, STANDARD_TIER


class PaymentLinkSchema(Schema):
    provider = fields.String(
        required=True,
        metadata={"description": "The payment provider, or `billing` for our billing page."},
    )
    url = fields.Url(required=True, metadata={"description": "The checkout or billing page."})


class ErrorDetailSchema(Schema):
    code = fields.String(
        required=True, metadata={"description": "Machine-readable. Doesn't change within v1."}
    )
    message = fields.String(required=True, metadata={"description": "Safe to show to a user."})
    request_id = fields.String(
        required=True, metadata={"description": "The same ID as in the X-Request-Id header."}
    )
    payment_links = fields.List(
        fields.Nested(PaymentLinkSchema),
        metadata={
            "description": "At least one link to buy a credit. Present if an upload needs one."
        },
    )


class ErrorSchema(Schema):
    error = fields.Nested(ErrorDetailSchema, required=True)


def described(text: str) -> Mapping[str, str]:
    return {"description": text}


def _count(text: str, *, required: bool = False) -> fields.Integer:
    return fields.Integer(
        strict=True,
        required=required,
        allow_none=not required,
        validate=Range(min=0, max=MAX_COUNT),
        metadata=described(text),
    )


def _label(text: str) -> fields.String:
    shape = [Length(max=MAX_LABEL_LENGTH), Regexp(_published(LABEL_PATTERN))]
    return fields.String(allow_none=True, validate=shape, metadata=described(text))


def _published(pattern: str) -> str:
    r"""Return the pattern in JSON Schema's dialect, where `$` doesn't match before a newline."""
    return pattern.replace(r"\Z", "$")


class UsageRecordSchema(Schema):
    """One language model call as counts, times and labels. No other fields are accepted."""

    class Meta:
        unknown = RAISE

    ts = fields.String(  # not `date-time`, which requires an offset in JSON Schema
        required=True,
        metadata=described("ISO 8601 time from 2000 to 2100; UTC if it has no offset."),
    )
    provider = fields.String(
        required=True,
        validate=Regexp(_published(PROVIDER_PATTERN)),
        metadata=described("`openai`, `anthropic`, or any lowercase label used for pricing."),
    )
    model = fields.String(
        required=True,
        validate=[Length(min=1, max=MAX_LABEL_LENGTH), Regexp(_published(LABEL_PATTERN))],
        metadata=described("The model ID as billed."),
    )
    prompt_tokens = _count("Total input tokens, including cached tokens.", required=True)
    completion_tokens = _count("Output tokens.", required=True)
    cached_tokens = _count("Input tokens read from the cache.")
    cache_write_tokens = _count("Cache-creation input tokens.")
    latency_ms = fields.Float(
        allow_none=True,
        validate=Range(min=0, max=MAX_LATENCY_MS),
        metadata=described("Round-trip latency in milliseconds."),
    )
    endpoint = _label("Your label for the endpoint that made the call.")
    request_id = _label("Your correlation ID.")
    tag = _label("Your label, for example a service, team or agent session.")
    declared_max_tokens = _count("The `max_tokens` of the request.")
    prefix_hash = fields.String(
        allow_none=True,
        validate=Regexp(_published(PREFIX_HASH_PATTERN)),
        metadata=described("SHA-256 hex digest of the prompt's first 4,096 characters."),
    )


def _hash(characters: int) -> fields.String:
    return fields.String(
        allow_none=True,
        validate=Regexp(_published(PREFIX_HASH_PATTERN)),
        metadata=described(f"SHA-256 hex digest of the prompt's first {characters:,} characters."),
    )


def _choice(text: str, choices: Sequence[str]) -> fields.String:
    return fields.String(
        allow_none=True, validate=OneOf((*choices, None)), metadata=described(text)
    )


class UsageRecordV2Schema(UsageRecordSchema):
    """A usage record with what the first version can't carry. No other fields are accepted.

    A part of a count must not exceed the count.
    """

    service_tier = _choice("The tier the call was billed at.", (STANDARD_TIER, *SERVICE_TIERS))
    cache_write_1h_tokens = _count("The part of `cache_write_tokens` kept for one hour.")
    reasoning_tokens = _count("The part of `completion_tokens` spent on reasoning.")
    audio_prompt_tokens = _count("The part of `prompt_tokens` that is audio.")
    audio_completion_tokens = _count("The part of `completion_tokens` that is audio.")
    image_prompt_tokens = _count("The part of `prompt_tokens` that is images.")
    image_completion_tokens = _count("The part of `completion_tokens` that is images.")
    web_searches = _count("Web searches that were billed with the call.")
    prefix_hash_16k = _hash(16_384)
    prefix_hash_64k = _hash(65_536)
    environment = _label("Your label for the environment, for example `production`.")
    session_id = _label("Your ID for the session or conversation.")
    status = _choice("How the call ended; counts of a canceled stream are lower bounds.", STATUSES)
    region = _label("The region that processed the call, if its price depends on that.")


class Records(fields.List[Any]):
    """Records that the bulk decoder has already validated.

    The element schema only documents what the decoder enforces: validating 5,000 records with it
    would take twenty times as long and would accept `"5"` as 5.
    """

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value


def _records(schema: type[Schema]) -> Records:
    return Records(
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
    records = fields.Integer(required=True, metadata=described("Number of accepted records."))
    replayed = fields.Boolean(required=True, metadata=described("Always false."))


class ReplayedSchema(Schema):
    audit_id = audit_id_field()
    replayed = fields.Boolean(required=True, metadata=described("Always true."))


class EventReceivedSchema(Schema):
    received = fields.Boolean(required=True, metadata=described("Always true."))


class UploadedSchema(Schema):
    audit_id = audit_id_field()
    replayed = fields.Boolean(required=True, metadata=described("Whether this is a retry."))
    status_url = fields.Url(required=True, metadata=described("Where to poll the status."))


class HealthSchema(Schema):
    status = fields.String(
        required=True,
        validate=OneOf(("ok", "degraded")),
        metadata=described("`ok` if every component is `ok`."),
    )
    components = fields.Dict(
        keys=fields.String(),
        values=fields.String(validate=OneOf(("ok", "down"))),
        metadata=described(
            "The state of the database, Redis and storage, for requests of the operator only."
        ),
    )
