"""Response schemas of the OAuth endpoints, as the standards define them."""

from typing import Final

from marshmallow import Schema, fields
from marshmallow.validate import Equal, OneOf

from service.errors import OAUTH_CODES
from service.models.access.oauth import TOKEN_SECONDS
from service.web.schemas.ingest import required

GRANT_ERRORS: Final = ("invalid_grant", "unsupported_grant_type", "unauthorized_client")


class OAuthErrorSchema(Schema):
    """RFC 6749, 5.2."""

    error = fields.String(
        required=True,
        validate=OneOf(sorted({*OAUTH_CODES.values(), *GRANT_ERRORS})),
        metadata={"example": "invalid_grant", "description": "Machine-readable (RFC 6749, 5.2)."},
    )
    error_description = fields.String(metadata={"description": "Human-readable."})


class TokenSchema(Schema):
    access_token = required(fields.String, "`at_…`, read-only.")
    token_type = required(
        fields.String, "How to send it: `Authorization: Bearer at_…`.", validate=Equal("Bearer")
    )
    expires_in = fields.Integer(
        required=True, metadata={"description": "Seconds.", "example": TOKEN_SECONDS}
    )
    scope = fields.String(
        required=True,
        metadata={
            "description": "The granted scopes, which may be fewer than requested.",
            "example": "read:audits read:findings",
        },
    )


class RevokedSchema(Schema):
    """An empty object, whether or not the token existed."""


class ServerMetadataSchema(Schema):
    """RFC 8414, 2."""

    issuer = fields.Url(required=True)
    authorization_endpoint = fields.Url(required=True)
    token_endpoint = fields.Url(required=True)
    revocation_endpoint = fields.Url(required=True)
    scopes_supported = fields.List(fields.String(), required=True)
    response_types_supported = fields.List(fields.String(), required=True)
    response_modes_supported = fields.List(fields.String(), required=True)
    grant_types_supported = fields.List(fields.String(), required=True)
    token_endpoint_auth_methods_supported = fields.List(fields.String(), required=True)
    revocation_endpoint_auth_methods_supported = fields.List(fields.String(), required=True)
    code_challenge_methods_supported = fields.List(fields.String(), required=True)
    authorization_response_iss_parameter_supported = fields.Boolean(required=True)
    service_documentation = fields.Url(required=True)
