"""Authlib's authorization server with our tables and our responses.

It is stricter than Authlib: one way to authenticate per request, parameters only from the right
part of a request, and responses that neither quote the request nor rewrite a redirect URI.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote_plus

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.integrations.flask_oauth2.requests import FlaskOAuth2Payload, FlaskOAuth2Request
from authlib.oauth2 import OAuth2Error, OAuth2Request
from authlib.oauth2.rfc6749 import (
    AccessDeniedError,
    BaseGrant,
    ClientMixin,
    InvalidClientError,
    InvalidRequestError,
    InvalidScopeError,
    UnsupportedResponseTypeError,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from flask import Flask, Request, Response, current_app
from flask import request as flask_request

from service.core import tokens
from service.errors import BadRequestError
from service.models.access.oauth import (
    TOKEN_SECONDS,
    OAuthCode,
    OAuthToken,
    find_application,
    find_code,
    revoke_issued,
    revoke_token,
    use_code,
)
from service.models.base import utc_now
from service.web.auth.scopes import find_scopes
from service.web.http.current import current_config, get_session
from service.web.oauth.clients import Client, Code
from service.web.oauth.pkce import RequiredChallenge
from service.web.oauth.redirects import add_parameters

_ONCE: Final = (
    *("response_type", "client_id", "redirect_uri", "scope", "state"),
    *("code_challenge", "code_challenge_method"),
)


class CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    @staticmethod
    def validate_no_multiple_request_parameter(request: OAuth2Request) -> None:
        """Reject any repeated parameter, and report the error to the application."""
        payload: Any = request.payload
        for name in _ONCE:
            if len(payload.datalist.get(name, [])) > 1:
                raise InvalidRequestError(
                    f"Send {name} only once.", redirect_uri=payload.redirect_uri
                )

    def create_authorization_response(self, redirect_uri: str, grant_user: Any) -> Any:
        """Redirect with a code. The server adds the parameters of every response."""
        if grant_user is None:
            raise AccessDeniedError(redirect_uri=redirect_uri)
        request: Any = self.request
        request.user = grant_user
        code = self.generate_authorization_code()
        self.save_authorization_code(code, request)
        return self.server.redirect_back(redirect_uri, [("code", code)], request.payload.state)

    def generate_authorization_code(self) -> str:
        return tokens.mint(tokens.Kind.AUTHORIZATION_CODE)

    def save_authorization_code(self, code: str, request: Any) -> None:
        payload = request.payload
        get_session().add(
            OAuthCode(
                application_id=request.client.application.id,
                account_id=request.user.account_id,
                secret_hash=tokens.find_hash(tokens.Kind.AUTHORIZATION_CODE, code),
                scopes=list(request.user.scopes),
                redirect_uri=payload.redirect_uri,
                code_challenge=payload.data["code_challenge"],
            )
        )

    def query_authorization_code(self, code: str, client: ClientMixin) -> Code | None:
        """Return the code if it can be redeemed; revoke its tokens if it was used before."""
        secret_hash = tokens.find_hash(tokens.Kind.AUTHORIZATION_CODE, code)
        if secret_hash is None or not isinstance(client, Client):
            return None
        row = find_code(get_session(), client.application.id, secret_hash)
        if row is not None and row.used_at is not None:
            revoke_issued(get_session(), row)
            return None
        return None if row is None or row.expires_at <= utc_now() else Code(row)

    def authenticate_user(self, authorization_code: Code) -> str | None:
        """Return the account that granted the code, unless it is being redeemed concurrently.

        This is the last check before a token is created: the conditional UPDATE succeeds once.
        """
        row = authorization_code.row
        if use_code(get_session(), row):
            return row.account_id
        revoke_issued(get_session(), row)
        return None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """Keep the used code, so that its reuse is detected."""


class Revocation(RevocationEndpoint):
    """Revoke a token (RFC 7009).

    Respond the same way to unknown tokens, other applications' tokens and revoked tokens.
    """

    CLIENT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    def authenticate_token(self, request: Any, client: Any) -> bytes | None:
        token = request.form.get("token")
        if not token:
            raise InvalidRequestError("Send the token to revoke.")
        return tokens.find_hash(tokens.Kind.ACCESS_TOKEN, token)  # token_type_hint isn't needed

    def revoke_token(self, token: bytes, request: Any) -> None:
        revoke_token(get_session(), request.client.application.id, token)


_JSON_HEADERS: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_BASIC: Final = 'Basic realm="tallystick"'
# Authlib's own descriptions may quote the request or be empty.
_DESCRIPTIONS: Final = {
    "invalid_client": "Invalid client ID or client secret.",
    "invalid_grant": "Invalid authorization code: unknown, used, expired or for another request.",
    "unsupported_response_type": "response_type must be code.",
    "unsupported_grant_type": "grant_type must be authorization_code.",
    "access_denied": "The user denied the request.",
    "invalid_scope": "scope must be read:audits, read:findings or both.",
}


class Consent(NamedTuple):
    """The account that granted access, and the granted scopes."""

    account_id: str
    scopes: Sequence[str]


class OAuthPayload(FlaskOAuth2Payload):
    """Read parameters from the query on the consent page, and from the body elsewhere."""

    @property
    def data(self) -> Any:
        is_page = flask_request.path.endswith("/authorize")
        return flask_request.args if is_page else flask_request.form


class OAuthRequest(FlaskOAuth2Request):
    def __init__(self, request: Request) -> None:
        # Authlib rejects requests without TLS, but the proxy in front of us terminates TLS.
        uri = f"https://{request.host}{request.path}"
        headers = cast("Mapping[str, str]", request.headers)
        OAuth2Request.__init__(self, request.method, uri, headers=headers)
        self._request = request
        self.payload = OAuthPayload(request)


class OAuthServer(AuthorizationServer):
    def __init__(self) -> None:
        super().__init__()
        self.register_token_generator("default", cast(Any, _mint_token))
        self.register_grant(CodeGrant, [RequiredChallenge()])
        self.register_endpoint(Revocation)

    @property
    def issuer(self) -> str:
        return current_config().base_url

    def create_oauth2_request(self, request: Any) -> FlaskOAuth2Request:
        return OAuthRequest(flask_request)

    def query_client(self, client_id: str) -> Any:
        application = find_application(get_session(), client_id)
        return None if application is None else Client(application)

    def authenticate_client(
        self, request: OAuth2Request, methods: Collection[str], endpoint: str = "token"
    ) -> Client:
        """Return the application that the request's credentials belong to."""
        client_id, secret = _read_credentials(request)
        # A malformed secret is rejected without a query.
        is_well_formed = tokens.find_hash(tokens.Kind.CLIENT_SECRET, secret) is not None
        client: Client | None = self.query_client(client_id) if is_well_formed else None
        if client is None or not client.check_client_secret(secret):
            raise InvalidClientError(status_code=401)
        return client

    def validate_requested_scope(self, scope: str | None) -> None:
        if not find_scopes(scope or ""):
            raise InvalidScopeError

    def get_authorization_grant(self, request: OAuth2Request) -> BaseGrant:
        """Return the grant; show errors on our own page until the redirect URI is validated."""
        payload: Any = request.payload
        for name in ("client_id", "redirect_uri"):
            if len(payload.datalist.get(name, [])) != 1:
                raise BadRequestError(f"The application must send exactly one {name}.")
        client: Client | None = self.query_client(payload.client_id)
        if client is None:
            raise BadRequestError("Unknown client_id. The application may have been deleted.")
        if not client.check_redirect_uri(payload.redirect_uri):
            raise BadRequestError(
                "This redirect_uri isn't registered for the application. It must match exactly."
            )
        redirect_uri: str = payload.redirect_uri
        if cast(Any, request.payload).response_type != "code":
            raise UnsupportedResponseTypeError(None, redirect_uri=redirect_uri)
        return super().get_authorization_grant(request)

    def save_token(self, token: dict[str, str | int], request: Any) -> None:
        secret = str(token["access_token"])
        code = request.authorization_code.row
        get_session().add(
            OAuthToken(
                application_id=code.application_id,
                account_id=code.account_id,
                code_id=code.id,
                secret_hash=tokens.find_hash(tokens.Kind.ACCESS_TOKEN, secret),
                scopes=code.scopes,
            )
        )

    def find_consent_grant(self) -> Any:
        """Return the requested grant; raise `OAuth2Error` for errors to send to the application."""
        return self.get_consent_grant()  # type: ignore[no-untyped-call]

    def answer_token_request(self) -> Response:
        return cast(Response, self.create_token_response())

    def answer_revocation(self) -> Response:
        return cast(Response, self.create_endpoint_response("revocation"))  # type: ignore[no-untyped-call]

    def answer_consent(self, grant: Any, consent: Consent | None) -> Response:
        answer = self.create_authorization_response(grant_user=consent, grant=grant)
        return cast(Response, answer)

    def redirect_back(
        self, redirect_uri: str, parameters: Sequence[tuple[str, str]], state: str | None
    ) -> tuple[int, str, list[tuple[str, str]]]:
        """Redirect to the application, with the `iss` of RFC 9207.

        The status is 303, so that browsers don't submit the consent form to the application.
        """
        returned_state = [] if state is None else [("state", state)]
        answer = [*parameters, *returned_state, ("iss", self.issuer)]
        return 303, "", [("Location", add_parameters(redirect_uri, answer))]

    def handle_response(self, status_code: int, payload: Any, headers: Any) -> Response:
        response = super().handle_response(status_code, payload, headers)
        response.headers.update(_JSON_HEADERS)
        return response

    def handle_error_response(self, request: OAuth2Request, error: OAuth2Error) -> Response:
        code = str(error.error)
        words = _DESCRIPTIONS.get(code) or error.description
        fields = [("error", code), *([("error_description", words)] if words else [])]
        if error.redirect_uri:
            answer = self.redirect_back(error.redirect_uri, fields, error.state)
            return self.handle_response(*answer)
        status = error.status_code or 400
        headers = {"WWW-Authenticate": _BASIC} if status == 401 else {}
        headers["Content-Type"] = "application/json"
        return self.handle_response(status, dict(fields), headers)


def _mint_token(*, scope: str, **_: Any) -> dict[str, str | int]:
    return {
        "access_token": tokens.mint(tokens.Kind.ACCESS_TOKEN),
        "token_type": "Bearer",
        "expires_in": TOKEN_SECONDS,
        "scope": scope,
    }


def init_oauth(app: Flask) -> None:
    app.extensions["oauth"] = OAuthServer()


def current_server() -> OAuthServer:
    return cast(OAuthServer, current_app.extensions["oauth"])


def _read_credentials(request: OAuth2Request) -> tuple[str, str]:
    """Return the client's ID and secret, from the header or from the body, but not from both."""
    form = request.form
    if "Authorization" not in flask_request.headers:
        return form.get("client_id", ""), form.get("client_secret", "")
    if "client_secret" in form:
        raise InvalidRequestError("Send the client secret in the header or in the body, not both.")
    try:
        header = flask_request.authorization
    except ValueError:  # Werkzeug's, for other characters than ASCII
        header = None
    if header is None or header.type != "basic":
        raise InvalidClientError(status_code=401)
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    client_id = unquote_plus(header.username or "")
    if form.get("client_id", client_id) != client_id:
        raise InvalidRequestError("The client IDs in the header and in the body differ.")
    return client_id, unquote_plus(header.password or "")
