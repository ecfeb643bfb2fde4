"""What programs call of OAuth: a token for a code, a token's end, and the server's metadata."""

from typing import Any, Final

from flask import Response

from service.web.auth.scopes import SCOPES
from service.web.http.current import get_session
from service.web.http.limits import client_address, limiter, per_minute
from service.web.oauth import current_server
from service.web.oauth.bodies import FORM_TYPE, form_body
from service.web.oauth.clients import CODE_GRANT
from service.web.oauth.pkce import METHOD
from service.web.openapi.blueprint import OAUTH_ERROR, Blueprint
from service.web.schemas.oauth import RevokedSchema, ServerMetadataSchema, TokenSchema

_ERRORS: Final = {
    400: "The request is malformed, or the code cannot be redeemed; `error` says which.",
    401: "The client is not known, or this is not its secret.",
    413: "The body is too large.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_AUTH_METHODS: Final = ["client_secret_basic", "client_secret_post"]
_CREDENTIALS: Final = {
    "client_id": {"type": "string", "description": "`oac_…`, unless it comes by HTTP Basic."},
    "client_secret": {"type": "string", "description": "`oas_…`, unless it comes by HTTP Basic."},
}


def _form(**fields: str) -> dict[str, Any]:
    told = {name: {"type": "string", "description": words} for name, words in fields.items()}
    schema = {"type": "object", "required": list(fields), "properties": {**told, **_CREDENTIALS}}
    return {"required": True, "content": {FORM_TYPE: {"schema": schema}}}


_TOKEN_FORM: Final = _form(
    grant_type=f"`{CODE_GRANT}`",
    code="`oaq_…`, as it came to the redirect URI.",
    redirect_uri="The same as when the code was asked for.",
    code_verifier="What the challenge was made from, 43 to 128 characters (RFC 7636).",
)
_REVOCATION_FORM: Final = _form(**{"token": "The access token to end."})

blueprint = Blueprint("oauth", __name__, description="OAuth 2.0 for applications that read.")


@blueprint.route("/oauth/token", methods=["POST"])
@limiter.limit(per_minute("oauth_limit_per_minute"), key_func=client_address)
@form_body
@blueprint.documented(
    operation="redeem_code",
    security="oauth_client",
    requestBody=_TOKEN_FORM,
    errors=_ERRORS,
    media_type=OAUTH_ERROR,
)
@blueprint.response(200, TokenSchema, description="A token for 30 days. There is no refreshing.")
def token() -> Response:
    """Redeem an authorization code."""
    response = current_server().answer_token_request()
    get_session().commit()  # a refusal, too, may have ended something
    return response


@blueprint.route("/oauth/revoke", methods=["POST"])
@limiter.limit(per_minute("oauth_limit_per_minute"), key_func=client_address)
@form_body
@blueprint.documented(
    operation="revoke_access_token",
    security="oauth_client",
    requestBody=_REVOCATION_FORM,
    errors=_ERRORS,
    media_type=OAUTH_ERROR,
)
@blueprint.response(200, RevokedSchema, description="The token is worth nothing, if it ever was.")
def revoke() -> Response:
    """End an access token."""
    response = current_server().answer_revocation()
    get_session().commit()
    return response


@blueprint.route("/.well-known/oauth-authorization-server", methods=["GET"])
@blueprint.documented(operation="get_oauth_metadata", errors={})
@blueprint.response(200, ServerMetadataSchema, description="RFC 8414.")
def metadata() -> dict[str, Any]:
    """Tell a client library where everything is."""
    issuer = current_server().issuer
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [CODE_GRANT],
        "token_endpoint_auth_methods_supported": _AUTH_METHODS,
        "revocation_endpoint_auth_methods_supported": _AUTH_METHODS,
        "code_challenge_methods_supported": [METHOD],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{issuer}/docs",
    }
