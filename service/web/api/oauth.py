"""OAuth endpoints for programs: token, revocation and server metadata."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from flask import Response, request

from service.errors import BadRequestError
from service.web.auth.scopes import SCOPES
from service.web.http.bodies import read_body
from service.web.http.current import get_session
from service.web.http.limits import client_address, limiter, per_minute
from service.web.oauth import current_server
from service.web.oauth.clients import CODE_GRANT
from service.web.oauth.pkce import METHOD
from service.web.openapi.blueprint import OAUTH_ERROR, Blueprint
from service.web.schemas.oauth import RevokedSchema, ServerMetadataSchema, TokenSchema

FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_BYTES: Final = 16 * 1024
_ERRORS: Final = {
    400: "The request is malformed, or the code can't be redeemed. See `error`.",
    401: "The client ID or secret is invalid.",
    413: "The body is too large.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_AUTH_METHODS: Final = ["client_secret_basic", "client_secret_post"]
_CREDENTIALS: Final = {
    "client_id": {"type": "string", "description": "`oac_…`, unless you use HTTP Basic."},
    "client_secret": {"type": "string", "description": "`oas_…`, unless you use HTTP Basic."},
}


def _form(**fields: str) -> dict[str, Any]:
    documents = {name: {"type": "string", "description": words} for name, words in fields.items()}
    properties = {**documents, **_CREDENTIALS}
    schema = {"type": "object", "required": list(fields), "properties": properties}
    return {"required": True, "content": {FORM_TYPE: {"schema": schema}}}


_TOKEN_FORM: Final = _form(
    grant_type=f"`{CODE_GRANT}`",
    code="`oaq_…`, from the redirect URI.",
    redirect_uri="The same URI as in the authorization request.",
    code_verifier="The original verifier of the challenge, 43 to 128 characters (RFC 7636).",
)
_REVOCATION_FORM: Final = _form(**{"token": "The access token to revoke."})

P = ParamSpec("P")
R = TypeVar("R")

blueprint = Blueprint("oauth", __name__, description="OAuth 2.0 with read-only scopes.")


def form_body(view: Callable[P, R]) -> Callable[P, R]:
    """Read the form; reject other content types and repeated parameters (RFC 6749, 3.2)."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if request.mimetype != FORM_TYPE:
            raise BadRequestError(f"Send the parameters as {FORM_TYPE}.")
        read_body(_MAX_BYTES)
        for _name, values in request.form.lists():
            if len(values) > 1:
                raise BadRequestError("Send each parameter only once.")
        return view(*args, **kwargs)

    return checked


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
@blueprint.response(
    200, TokenSchema, description="A token for 30 days. There are no refresh tokens."
)
def token() -> Response:
    """Exchange an authorization code for an access token."""
    response = current_server().answer_token_request()
    get_session().commit()  # an error response may have revoked tokens
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
@blueprint.response(200, RevokedSchema, description="The token is no longer valid.")
def revoke() -> Response:
    """Revoke an access token."""
    response = current_server().answer_revocation()
    get_session().commit()
    return response


@blueprint.route("/.well-known/oauth-authorization-server", methods=["GET"])
@blueprint.documented(operation="get_oauth_metadata", errors={})
@blueprint.response(200, ServerMetadataSchema, description="RFC 8414.")
def metadata() -> dict[str, Any]:
    """Get the server metadata that client libraries discover."""
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
