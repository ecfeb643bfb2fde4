"""Path prefixes that change how we respond, and the audit ID in paths."""

import re
from typing import Final

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
_POSSIBLE_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")


def is_api_path(path: str) -> bool:
    return any(path == version or path.startswith(f"{version}/") for version in _API_VERSIONS)


def is_otlp_path(path: str) -> bool:
    return path.startswith(f"{OTLP_PREFIX}/")


def check_audit_id(audit_id: str) -> str:
    """Return the ID; raise `InvalidRequestError` for control characters or an impossible length."""
    return _check_id(audit_id, "audit")


def check_account_id(account_id: str) -> str:
    return _check_id(account_id, "account")


def check_report_token(token: str) -> str:
    return _check_possible(token, "Invalid report link.")


def read_id(text: str) -> str:
    """Return the ID of a query or a form; "" if it can't be one."""
    is_possible = text.isascii() and text.isalnum() and len(text) <= _MAX_ID_LENGTH
    return text if is_possible else ""


def _check_id(row_id: str, what: str) -> str:
    return _check_possible(row_id, f"Invalid {what} ID.")


def _check_possible(text: str, message: str) -> str:
    if _POSSIBLE_ID.fullmatch(text) is None:
        raise InvalidRequestError(message)
    return text
