"""OAuth 2.0 with read-only scopes: the authorization code grant with PKCE, and no other."""

from service.web.oauth.server import Consent, current_server, init_oauth

__all__ = ["Consent", "current_server", "init_oauth"]
