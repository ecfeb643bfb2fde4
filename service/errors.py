"""The errors of the service, and the one place where any error becomes a status and a body.

Nothing else maps errors to status codes. Messages are safe to show: they never repeat input.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from flask import Flask, Response, g, jsonify, make_response, render_template, request
from flask.globals import request_ctx
from flask_limiter import RateLimitExceeded
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException, InternalServerError

from detectors.errors import (
    ContractError,
    DetectorError,
    LogTooLargeError,
    MalformedJSONError,
    TooManyRecordsError,
    UnreadableLogError,
)
from service.core.logs import get_logger

API_PREFIX: Final = "/api/v1"
OAUTH_CALLS: Final = frozenset({"/oauth/token", "/oauth/revoke"})
AUTH_PREFIX: Final = "/auth/"
RETRY_SECONDS: Final = 2  # long enough for a database to come back, short enough to be tried

CODES: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "validation_error",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}

# What the same statuses are called where OAuth's own shape of an error is the answer.
OAUTH_CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "invalid_client",
    429: "temporarily_unavailable",
    500: "server_error",
    503: "temporarily_unavailable",
}

MESSAGES: Final[Mapping[int, str]] = {
    400: "The request is malformed.",
    401: "Send a credential that is known here.",
    402: "There is no active subscription, or no credit.",
    403: "This credential, or this page, may not do that.",
    404: "There is nothing here.",
    405: "This address does not take that method.",
    413: "The request is too large.",
    414: "The address is too long.",
    415: "This address takes application/json.",
    422: "The request does not match the documented schema.",
    429: "Too many requests; try again after the time in the Retry-After header.",
    431: "The headers are too large or too many.",
    500: "Something broke on our side. Quote the request id when you report it.",
    503: "The service is busy or restarting; try again shortly.",
}

# Errors of the log readers reach the caller as they stand: they name fields, never values.
_DETECTOR_STATUS: Final[Mapping[type[DetectorError], int]] = {
    MalformedJSONError: 400,
    TooManyRecordsError: 413,
    LogTooLargeError: 413,
    ContractError: 422,
    UnreadableLogError: 422,
}

# Prints an error's status, message and details; None where it has nothing better to say.
ErrorPrinter = Callable[[int, str, Mapping[str, Any]], str | None]

_log = get_logger(__name__)


class ServiceError(Exception):
    """Base of everything the service raises on purpose: a status, a safe message, headers.

    `details` stand in the envelope beside code, message and request id.
    """

    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.message = message or MESSAGES.get(self.status, MESSAGES[500])
        self.headers = dict(headers or {})
        self.details = dict(details or {})
        super().__init__(self.message)


class ConfigError(ServiceError):
    """A setting is missing or malformed. Stops a start; no request ever sees it."""


class BadRequestError(ServiceError):
    status = 400


class UnauthorizedError(ServiceError):
    status = 401


class PaymentRequiredError(ServiceError):
    status = 402


class ForbiddenError(ServiceError):
    status = 403


class NotFoundError(ServiceError):
    status = 404


class PayloadTooLargeError(ServiceError):
    status = 413


class UnsupportedMediaTypeError(ServiceError):
    status = 415


class InvalidRequestError(ServiceError):
    status = 422


class UnavailableError(ServiceError):
    """A part that the request needs is down or busy; the caller should try again."""

    status = 503

    def __init__(self, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, {"Retry-After": str(RETRY_SECONDS), **(headers or {})})


def register_error_handlers(app: Flask) -> None:
    app.register_error_handler(ServiceError, _on_service_error)
    app.register_error_handler(DetectorError, _on_detector_error)
    app.register_error_handler(OperationalError, _on_database_error)
    app.register_error_handler(InterfaceError, _on_database_error)
    app.register_error_handler(DBAPIError, _on_database_error)
    app.register_error_handler(PoolTimeoutError, _on_database_error)
    app.register_error_handler(HTTPException, on_http_exception)
    app.register_error_handler(Exception, _on_unexpected_error)


def is_api_path(path: str) -> bool:
    return path == API_PREFIX or path.startswith(f"{API_PREFIX}/")


def wants_page() -> bool:
    """Whether the answer is for a browser to show: never under the API's prefix.

    Sign-in and administration also serve programs, which unlike browsers do not name HTML.
    """
    if request_ctx.url_adapter is None:
        return False  # of such a Host header no address can be made, and a page needs some
    is_sign_in = request.path.startswith(AUTH_PREFIX) and request.method == "POST"
    if is_sign_in or g.get("is_admin"):
        return any(kind == "text/html" for kind, _quality in request.accept_mimetypes)
    return not is_api_path(request.path)


def code_for(status: int) -> str:
    """The envelope's code; statuses without one of their own take their class's general code."""
    return CODES.get(status) or (CODES[400] if status < 500 else CODES[500])


def oauth_code_for(status: int) -> str:
    return OAUTH_CODES.get(status) or OAUTH_CODES[400 if status < 500 else 500]


def message_for(status: int) -> str:
    return MESSAGES.get(status) or MESSAGES[400 if status < 500 else 500]


def envelope(
    status: int, message: str, request_id: str, details: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    error = {"code": code_for(status), "message": message, "request_id": request_id}
    return {"error": {**error, **(details or {})}}


def error_response(
    status: int,
    message: str,
    headers: Mapping[str, str],
    details: Mapping[str, Any] | None = None,
) -> Response:
    """A page for who looks at pages, the envelope for everybody else but OAuth's clients."""
    if request.path in OAUTH_CALLS:
        response = jsonify(error=oauth_code_for(status), error_description=message)
        headers = {"Cache-Control": "no-store", "Pragma": "no-cache", **headers}
    elif not wants_page():
        response = jsonify(envelope(status, message, g.request_id, details))
    else:
        response = make_response(_print_page(status, message, details or {}))
    response.status_code = status
    response.headers.update(headers)
    return response


def _print_page(status: int, message: str, details: Mapping[str, Any]) -> str:
    """The page of an error; a view that has set `g.print_error` may have a better one."""
    print_error: ErrorPrinter | None = g.pop("print_error", None)
    page = print_error(status, message, details) if print_error else None
    title = HTTPStatus(status).phrase
    return page or render_template("pages/error.html", status=status, title=title, message=message)


def _on_service_error(error: ServiceError) -> Response:
    return error_response(error.status, error.message, error.headers, error.details)


def _on_detector_error(error: DetectorError) -> Response:
    for kind, status in _DETECTOR_STATUS.items():
        if isinstance(error, kind):
            return error_response(status, str(error), {})
    return _on_unexpected_error(error)


def _on_database_error(error: Exception) -> Response:
    """503 where another try can succeed: no free connection, or a server that went away."""
    if _is_account_gone(error):
        return _on_service_error(UnauthorizedError("This account was deleted meanwhile."))
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if not lost and not isinstance(error, (OperationalError, PoolTimeoutError)):
        return _on_unexpected_error(error)
    _log.warning("database_unavailable", error_type=type(error).__name__)
    unavailable = UnavailableError()
    return error_response(503, unavailable.message, unavailable.headers)


def _is_account_gone(error: Exception) -> bool:
    """Whether something was to be added to an account that was deleted after it was let in."""
    diagnosis = getattr(getattr(error, "orig", None), "diag", None)
    constraint = getattr(diagnosis, "constraint_name", None) or ""
    return isinstance(error, IntegrityError) and constraint.endswith("_account_id_accounts")


def on_http_exception(error: HTTPException) -> Response:
    """What Flask, webargs and the limiter raise. Their own texts are not shown."""
    status = error.code or 500
    headers = {}
    if isinstance(error, RateLimitExceeded):
        headers["Retry-After"] = str(g.get("retry_after_seconds", 60))
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
    return error_response(status, _message_of(error, status), headers)


def _message_of(error: HTTPException, status: int) -> str:
    fields = _offending_fields(getattr(error, "data", None))
    if fields:
        return "; ".join(fields)
    return message_for(status)


def _offending_fields(data: Any) -> list[str]:
    """The documented parameters that a schema refused, each with what was expected of it."""
    messages = data.get("messages", {}) if isinstance(data, dict) else {}
    return [
        f"{name} {' '.join(texts)}"
        for fields in messages.values()
        for name, texts in sorted(fields.items())
    ]


def _on_unexpected_error(error: Exception) -> Response:
    cause = error.original_exception if isinstance(error, InternalServerError) else error
    _log.error("unexpected_error", exc_info=cause or error)
    return error_response(500, MESSAGES[500], {})
