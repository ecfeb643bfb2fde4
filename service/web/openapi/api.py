"""The API objects that blueprints register with; `create_app` binds them.

Each has a document of its own, so the public one can't mention an admin route.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, Final

from flask_smorest import Api as SmorestApi
from flask_smorest import Blueprint
from werkzeug.exceptions import HTTPException

from service.web.auth.admin_gate import TOKEN_HEADER
from service.web.auth.browsers import SESSION_COOKIE, cookie_name
from service.web.auth.scopes import SCOPE_WORDS
from service.web.http.error_responses import on_http_exception
from service.web.schemas.ingest import ErrorSchema

_BEARERS: Final = {
    "ingest_key": "An ingest key (`ik_…`). Write-only: it can send usage and marks but can't read"
    " anything.",
    "read_token": "A read token (`rt_…`). Read-only, with the scopes you chose.",
}
_BY_CONSENT: Final = (
    "An OAuth access token (`at_…`). Read-only, with the scopes the user granted. PKCE (S256) and"
    " the client secret are required."
)
_CLIENT: Final = (
    "An OAuth application's `client_id` and `client_secret`. You can send them in the body instead."
)
_SESSION: Final = "The cookie of a signed-in browser."


class Api(SmorestApi):  # type: ignore[misc]  # it has no types
    """flask-smorest with the service's error responses.

    Routes are described when the document is first requested, because that takes as long as
    creating the rest of the application and most processes never need it.
    """

    ERROR_SCHEMA = ErrorSchema
    DEFAULT_ERROR_RESPONSE_NAME = None  # every route documents its own errors

    def __init__(self, config_prefix: str = "") -> None:
        self._describing = RLock()  # describing a route reads the document as well
        self._undescribed: list[Callable[[], None]] = []
        super().__init__(config_prefix=config_prefix)

    @property
    def spec(self) -> Any:
        """Return the document, after describing what was deferred."""
        with self._describing:
            undescribed = self._undescribed[:]
            self._undescribed.clear()
            for describe in undescribed:
                describe()
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = spec
        self._undescribed = []

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        """Register the routes now and describe them later."""
        app = self._app
        app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        app.register_blueprint(blueprint, **options)

        def describe() -> None:
            name, spec = blueprint.name, self._spec
            blueprint.register_views_in_doc(self, app, spec, name=name, parameters=None)
            spec.tag({"name": name, "description": blueprint.description})

        self.describe_later(describe)

    def describe_later(self, describe: Callable[[], None]) -> None:
        """Defer a description until the document is requested, in the order of these calls."""
        self._undescribed.append(describe)

    def _register_pagination_header(self) -> None:
        """Leave out the pagination component; we don't paginate by header."""

    def handle_http_exception(self, error: HTTPException) -> Any:
        return on_http_exception(error)


api: Final = Api()
admin_api: Final = Api("ADMIN")


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
