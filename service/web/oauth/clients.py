"""Adapt our rows to Authlib's interfaces: an application and its authorization code."""

import secrets
from collections.abc import Collection

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin

from service.core import tokens
from service.models.access.oauth import OAuthApplication, OAuthCode
from service.web.auth.scopes import find_scopes

CODE_GRANT = "authorization_code"


class Client(ClientMixin):
    """An application."""

    def __init__(self, application: OAuthApplication) -> None:
        self.application = application

    def get_client_id(self) -> str:
        return self.application.client_id

    def get_default_redirect_uri(self) -> str:
        return ""  # requests must always send it

    def get_allowed_scope(self, scope: Collection[str] | str) -> str:
        return " ".join(find_scopes(scope if isinstance(scope, str) else " ".join(scope)))

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.application.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        given = tokens.find_hash(tokens.Kind.CLIENT_SECRET, client_secret)
        return given is not None and secrets.compare_digest(given, self.application.secret_hash)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in ("client_secret_basic", "client_secret_post")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == CODE_GRANT


class Code(AuthorizationCodeMixin):
    """An unused authorization code."""

    def __init__(self, row: OAuthCode) -> None:
        self.row = row

    def get_redirect_uri(self) -> str:
        return self.row.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.row.scopes)
