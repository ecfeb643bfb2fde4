"""Token revocation (RFC 7009): an application ends one of its own tokens."""

from typing import Any

from authlib.oauth2.rfc6749 import InvalidRequestError
from authlib.oauth2.rfc7009 import RevocationEndpoint

from service.core import tokens
from service.models.access.oauth import revoke_token
from service.web.http.current import get_session


class Revocation(RevocationEndpoint):
    """A token that is unknown, or another application's, is answered like one that is ended."""

    CLIENT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    def authenticate_token(self, request: Any, client: Any) -> bytes | None:
        token = request.form.get("token")
        if not token:
            raise InvalidRequestError("token is missing.")
        return tokens.find_hash(tokens.Kind.ACCESS_TOKEN, token)  # a hint could only mislead

    def revoke_token(self, token: bytes, request: Any) -> None:
        revoke_token(get_session(), request.client.application.id, token)
