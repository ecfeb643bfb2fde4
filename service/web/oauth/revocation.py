"""Token revocation (RFC 7009): an application revokes one of its own tokens."""

from typing import Any

from authlib.oauth2.rfc6749 import InvalidRequestError
from authlib.oauth2.rfc7009 import RevocationEndpoint

from service.core import tokens
from service.models.access.oauth import revoke_token
from service.web.http.current import get_session


class Revocation(RevocationEndpoint):
    """Respond the same way to unknown tokens, other applications' tokens and revoked tokens."""

    CLIENT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    def authenticate_token(self, request: Any, client: Any) -> bytes | None:
        token = request.form.get("token")
        if not token:
            raise InvalidRequestError("Send the token to revoke.")
        return tokens.find_hash(tokens.Kind.ACCESS_TOKEN, token)  # token_type_hint isn't needed

    def revoke_token(self, token: bytes, request: Any) -> None:
        revoke_token(get_session(), request.client.application.id, token)
