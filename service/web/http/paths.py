"""Path prefixes that change how we respond, and the values in paths."""

import re
from typing import Final

from flask import Flask, request

from service.errors import InvalidRequestError

API_PREFIX: Final = "/api/v1"
# Of ingest only, whose record has a second version.
INGEST_PREFIX: Final = "/api"
# OpenTelemetry's exporters append /v1/traces to the address that they are given.
OTLP_PREFIX: Final = "/otlp/v1"
_API_VERSIONS: Final = (API_PREFIX, "/api/v2", OTLP_PREFIX)
AUTH_PREFIX: Final = "/auth/"
OAUTH_CALLS: Final = frozenset({"/oauth/token", "/oauth/revoke"})
AUDIT_ID_DOCUMENT: Final = {
    "in": "path",
    "name": "audit_id",
    "description": "The ID that ingest, an upload or the list of audits returned.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
ACCOUNT_ID_DOCUMENT: Final = {
    "in": "path",
    "name": "account_id",
    "description": "The ID in the list of accounts.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
REPORT_TOKEN_DOCUMENT: Final = {
    "in": "path",
    "name": "token",
    "description": "The signed token of a report link.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_MAX_ID_LENGTH: Final = 200
_NAMES: Final = {"token": "report link", "filename": "path"}
_POSSIBLE_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")


def is_api_path(path: str) -> bool:
    return any(path == version or path.startswith(f"{version}/") for version in _API_VERSIONS)


def is_otlp_path(path: str) -> bool:
    return path.startswith(f"{OTLP_PREFIX}/")


def init_paths(app: Flask) -> None:
    """Check the values of each path before its view, or once that has authenticated its caller."""

    def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        if not hasattr(view, "checks_path_values"):
            check_path_values()

    app.before_request(check)


def check_path_values() -> None:
    """Raise `InvalidRequestError` for a value that can't be an ID."""
    for name, value in (request.view_args or {}).items():
        if _POSSIBLE_ID.fullmatch(value) is None:
            raise InvalidRequestError(f"Invalid {_NAMES.get(name) or name.replace('_id', ' ID')}.")


def read_id(text: str) -> str:
    """Return the ID of a query or a form; "" if it can't be one."""
    is_possible = text.isascii() and text.isalnum() and len(text) <= _MAX_ID_LENGTH
    return text if is_possible else ""
