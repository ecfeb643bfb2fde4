"""Schemas of calls dated after today: the list, and which to delete."""

from marshmallow import Schema, fields, validates_schema
from marshmallow.exceptions import ValidationError
from marshmallow.validate import Range

from service.web.schemas.ingest import described
from service.web.schemas.spend import FutureSumsSchema, day_field


class FutureCallsQuerySchema(Schema):
    first = day_field("from", "The first day (UTC). By default, tomorrow.", "2034-01-01")
    last = day_field("to", "The last day (UTC), inclusive. By default, the last one.", "2034-01-31")

    @validates_schema
    def check(self, query: dict[str, object], **_: object) -> None:
        if "first" in query and "last" in query and query["first"] > query["last"]:  # type: ignore[operator]
            raise ValidationError("must not be after to", "from")


class FutureLineSchema(FutureSumsSchema):
    """The calls of one day, route and model."""

    day = fields.Date(required=True, metadata=described("Day of the calls (UTC)."))
    route = fields.String(
        required=True,
        metadata=described("The `tag`, or else the `endpoint`; empty for calls without either."),
    )
    provider = fields.String(required=True, metadata=described("The model provider."))
    model = fields.String(required=True, metadata=described("The model ID as billed."))


class FutureCallsSchema(FutureSumsSchema):
    is_deleting = fields.Boolean(
        required=True, metadata=described("Whether calls that you deleted are still listed.")
    )
    lines = fields.List(
        fields.Nested(FutureLineSchema),
        required=True,
        metadata=described("Sorted by day, at most 200."),
    )


class DeletedFutureCallsSchema(Schema):
    calls = fields.Integer(
        required=True,
        validate=Range(min=0),
        metadata=described("Number of calls that are being deleted."),
    )
