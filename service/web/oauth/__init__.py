"""OAuth 2.0 for applications that read: authorization code with PKCE, and nothing else."""

from service.web.oauth.server import Consent, current_server, init_oauth

__all__ = ["Consent", "current_server", "init_oauth"]
