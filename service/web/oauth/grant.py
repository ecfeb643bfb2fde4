"""The one grant: a code for a consent, and a token for a code. Callers commit, also refusals."""

from typing import Any, Final

from authlib.oauth2 import OAuth2Request
from authlib.oauth2.rfc6749 import AccessDeniedError, ClientMixin, InvalidRequestError
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant

from service.core import tokens
from service.models.access.oauth import OAuthCode, find_code, revoke_issued, use_code
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
        """As Authlib does, but of every parameter, and telling the application of it."""
        payload: Any = request.payload
        for name in _ONCE:
            if len(payload.datalist.get(name, [])) > 1:
                raise InvalidRequestError(
                    f"{name} comes more than once.", redirect_uri=payload.redirect_uri
                )

    def create_authorization_response(self, redirect_uri: str, grant_user: Any) -> Any:
        """Redirect with a code. The server adds what every answer carries."""
        if grant_user is None:
            raise AccessDeniedError(redirect_uri=redirect_uri)
        request: Any = self.request
        request.user = grant_user
        code = self.generate_authorization_code()
        self.save_authorization_code(code, request)
        return self.server.way_back(redirect_uri, [("code", code)], request.payload.state)

    def generate_authorization_code(self) -> str:
        return tokens.mint(tokens.Kind.AUTHORIZATION_CODE)

    def save_authorization_code(self, code: str, request: Any) -> None:
        asked = request.payload
        get_session().add(
            OAuthCode(
                application_id=request.client.application.id,
                account_id=request.user.account_id,
                secret_hash=tokens.find_hash(tokens.Kind.AUTHORIZATION_CODE, code),
                scopes=list(request.user.scopes),
                redirect_uri=asked.redirect_uri,
                code_challenge=asked.data["code_challenge"],
            )
        )

    def query_authorization_code(self, code: str, client: ClientMixin) -> Code | None:
        """A code that can be redeemed. Whoever brings a used one ends what it gave out."""
        secret_hash = tokens.find_hash(tokens.Kind.AUTHORIZATION_CODE, code)
        if secret_hash is None or not isinstance(client, Client):
            return None
        row = find_code(get_session(), client.application.id, secret_hash)
        if row is not None and row.used_at is not None:
            revoke_issued(get_session(), row)
            return None
        return None if row is None or row.expires_at <= utc_now() else Code(row)

    def authenticate_user(self, authorization_code: Code) -> str | None:
        """The account that the code speaks for, if nobody else is redeeming the code just now.

        Last of all checks, and before a token is made: the conditional UPDATE lets one through.
        """
        row = authorization_code.row
        if use_code(get_session(), row):
            return row.account_id
        revoke_issued(get_session(), row)
        return None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """Kept, marked used, so that its reuse is noticed."""
