"""The security schemes of the OpenAPI documents. Each route declares which it accepts."""

from typing import Any, Final

from service.web.auth.admin_gate import TOKEN_HEADER
from service.web.auth.browsers import SESSION_COOKIE, cookie_name
from service.web.auth.scopes import SCOPE_WORDS

_BEARERS: Final = {
    "ingest_key": "An ingest key (`ik_…`). Write-only: it can send usage but can't read anything.",
    "read_token": "A read token (`rt_…`). It reads what its scopes allow, and with `write:marks`"
    " also marks days of charts.",
}
_BY_CONSENT: Final = (
    "An OAuth access token (`at_…`). Read-only, with the scopes the user granted. PKCE (S256) and"
    " the client secret are required."
)
_CLIENT: Final = (
    "An OAuth application's `client_id` and `client_secret`. You can send them in the body instead."
)
_SESSION: Final = "The cookie of a signed-in browser."


def security_schemes(base_url: str) -> dict[str, dict[str, Any]]:
    flow = {
        "authorizationUrl": f"{base_url}/oauth/authorize",
        "tokenUrl": f"{base_url}/oauth/token",
        "scopes": dict(SCOPE_WORDS),
    }
    bearer, flows = {"type": "http", "scheme": "bearer"}, {"authorizationCode": flow}
    name = cookie_name(SESSION_COOKIE, base_url)
    cookie = {"type": "apiKey", "in": "cookie", "name": name, "description": _SESSION}
    return {
        **{name: {**bearer, "description": words} for name, words in _BEARERS.items()},
        "access_token": {"type": "oauth2", "flows": flows, "description": _BY_CONSENT},
        "session": cookie,
        "oauth_client": {"type": "http", "scheme": "basic", "description": _CLIENT},
    }


def admin_schemes() -> dict[str, dict[str, Any]]:
    return {"admin_token": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER}}
