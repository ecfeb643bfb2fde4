"""The authorization code grant and token revocation. Callers commit, after errors as well."""

from typing import Any, Final

from authlib.oauth2 import OAuth2Request
from authlib.oauth2.rfc6749 import AccessDeniedError, ClientMixin, InvalidRequestError
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint

from service.core import tokens
from service.models.access.oauth import OAuthCode, find_code, revoke_issued, revoke_token, use_code
from service.models.base import utc_now
from service.web.http.current import get_session
from service.web.oauth.clients import Client, Code

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
