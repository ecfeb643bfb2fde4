"""Schema of the response to a request for an import."""

from marshmallow import Schema, fields

from service.web.schemas.ingest import described


class SpanImportSchema(Schema):
    calls = fields.Integer(
        required=True, metadata=described("The calls in spans that no import has yet.")
    )
