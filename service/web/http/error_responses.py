"""Turn every error into a response: a page for browsers, JSON for programs.

Only this module maps errors to status codes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from flask import Flask, Response, g, jsonify, make_response, render_template, request
from flask.globals import request_ctx
from flask_limiter import RateLimitExceeded
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    PendingRollbackError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException, InternalServerError

from detectors.errors import (
    ColumnMappingError,
    ContractError,
    DetectorError,
    LogTooLargeError,
    MalformedJSONError,
    TooManyRecordsError,
    UnreadableLogError,
)
from detectors.formats.problems import shown_name
from service.core.blobs import BlobError, BlobNotFoundError
from service.core.logs import get_logger
from service.errors import (
    MESSAGES,
    ServiceError,
    UnauthorizedError,
    UnavailableError,
    envelope,
    message_for,
    oauth_code_for,
)
from service.web.http.otlp_status import status_line, status_response
from service.web.http.paths import AUTH_PREFIX, OAUTH_CALLS, is_api_path, is_otlp_path

# Errors of the log readers reach the caller unchanged: they name fields, never values.
_DETECTOR_STATUS: Final[Mapping[type[DetectorError], int]] = {
    MalformedJSONError: 400,
    TooManyRecordsError: 413,
    LogTooLargeError: 413,
    ColumnMappingError: 422,
    ContractError: 422,
    UnreadableLogError: 422,
}

# An error under a private page's address has no blueprint that keeps it out of caches.
_UNCACHED: Final[Mapping[str, str]] = {"Cache-Control": "no-store"}

# SQLAlchemy's code of a connection that was lost within a transaction.
_LOST_IN_TRANSACTION: Final = "8s2b"

_log = get_logger(__name__)


class Described(NamedTuple):
    """The status, message, headers and details of an error response."""

    status: int
    message: str
    headers: Mapping[str, str]
    details: Mapping[str, Any]


def register_error_handlers(app: Flask) -> None:
    app.register_error_handler(ServiceError, _on_service_error)
    app.register_error_handler(OperationalError, _on_database_error)
    app.register_error_handler(InterfaceError, _on_database_error)
    app.register_error_handler(DBAPIError, _on_database_error)
    app.register_error_handler(PoolTimeoutError, _on_database_error)
    app.register_error_handler(PendingRollbackError, _on_database_error)
    app.register_error_handler(HTTPException, on_http_exception)
    app.register_error_handler(Exception, _on_unexpected_error)

    @app.errorhandler(DetectorError)
    def on_detector_error(error: DetectorError) -> Response:
        described = describe_error(error)
        return _on_unexpected_error(error) if described is None else _respond(described)

    @app.errorhandler(BlobError)
    def on_storage_error(error: BlobError) -> Response:
        if isinstance(error, BlobNotFoundError):
            return _on_unexpected_error(error)
        return _on_service_error(_unavailable(error))


def wants_page() -> bool:
    """Check whether the response is a page: never under the API's prefix.

    Elsewhere it is one unless JSON is preferred. Sign-in and admin also serve programs, which do
    not ask for HTML as browsers do.
    """
    if request_ctx.url_adapter is None:
        return False  # the Host header is unusable, so a page could not build its links
    is_sign_in = request.path.startswith(AUTH_PREFIX) and request.method == "POST"
    if is_sign_in or g.get("is_admin"):
        return any(kind == "text/html" for kind, _quality in request.accept_mimetypes)
    kinds = ("text/html", "application/json")  # of equally good kinds, the first
    prefers_json = request.accept_mimetypes.best_match(kinds) == "application/json"
    return not is_api_path(request.path) and not prefers_json


def describe_error(error: Exception) -> Described | None:
    """Return what to say about an error of the caller; None for every other error."""
    if isinstance(error, ServiceError):
        return Described(error.status, error.message, error.headers, error.details)
    if isinstance(error, HTTPException):
        return _describe_http_exception(error)
    for kind, status in _DETECTOR_STATUS.items():
        if isinstance(error, kind):
            return Described(status, str(error), {}, {})
    return None


def on_http_exception(error: HTTPException) -> Response:
    """Answer what Flask, webargs and the limiter raise, without showing their own texts."""
    if isinstance(error, InternalServerError) and error.original_exception is not None:
        return _on_unexpected_error(error)
    return _respond(_describe_http_exception(error))


@contextmanager
def storage_needed() -> Iterator[None]:
    """Raise `UnavailableError`, a 503, where the disk is full or the storage is unreachable."""
    try:
        yield
    except OSError as error:
        raise _unavailable(error) from error


def _unavailable(error: OSError) -> UnavailableError:
    names = {"error_type": type(error).__name__, "errno": error.errno, "reason": error.strerror}
    _log.error("storage_failed", **names)
    return UnavailableError("Storage is temporarily unavailable. Try again shortly.")


def _respond(described: Described) -> Response:
    """Return a page to browsers, OAuth's and OTLP's shapes to theirs, or else the envelope."""
    status, message, headers, details = described
    if is_otlp_path(request.path):
        response = status_response(status, message)
    elif request.path in OAUTH_CALLS:
        response = jsonify(error=oauth_code_for(status), error_description=message)
        headers = {"Cache-Control": "no-store", "Pragma": "no-cache", **headers}
    elif not wants_page():
        response = jsonify(envelope(status, message, g.request_id, details))
        headers = headers if is_api_path(request.path) else {**_UNCACHED, **headers}
    else:
        title = HTTPStatus(status).phrase
        page = render_template("pages/error.html", status=status, title=title, message=message)
        response = make_response(page)
        headers = {**_UNCACHED, **headers}
    response.status_code = status
    if is_otlp_path(request.path):
        response.status = status_line(status, message)
    response.headers.update(headers)
    return response


def _on_service_error(error: ServiceError) -> Response:
    return _respond(Described(error.status, error.message, error.headers, error.details))


def _on_database_error(error: Exception) -> Response:
    """Answer 503 where a retry can succeed: no free connection, or a server that went away."""
    # A row may be added to an account that was deleted after its request was admitted.
    diagnosis = getattr(getattr(error, "orig", None), "diag", None)
    constraint = getattr(diagnosis, "constraint_name", None) or ""
    if isinstance(error, IntegrityError) and constraint.endswith("_account_id_accounts"):
        return _on_service_error(UnauthorizedError("This account has been deleted."))
    if not _is_unavailable(error):
        return _on_unexpected_error(error)
    _log.warning("database_unavailable", error_type=type(error).__name__)
    return _on_service_error(UnavailableError())


def _is_unavailable(error: Exception) -> bool:
    """Check for a database that is busy, restarting or gone, also within a transaction.

    While a server is killed, the driver raises bare errors without a state of the server's, and a
    session that lost its connection in a query refuses the next.
    """
    if isinstance(error, DBAPIError):
        has_state = bool(getattr(error.orig, "pgcode", None))
        is_bare = type(error) in (DatabaseError, InterfaceError) and not has_state
        return error.connection_invalidated or is_bare or isinstance(error, OperationalError)
    if isinstance(error, PendingRollbackError):
        return error.code == _LOST_IN_TRANSACTION
    return isinstance(error, PoolTimeoutError)


def _describe_http_exception(error: HTTPException) -> Described:
    status = error.code or 500
    headers, own_message = {}, ""
    if isinstance(error, RateLimitExceeded):
        headers["Retry-After"] = str(g.get("retry_after_seconds", 60))
        own_message = str(error.limit.error_message or "")
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
    # The documented parameters that a schema rejected, each with what was expected.
    data = getattr(error, "data", None)
    messages = data.get("messages", {}) if isinstance(data, dict) else {}
    fields = [
        said
        for rejected in messages.values()
        for name, texts in sorted(rejected.items())
        for said in _rejections(name, texts)
    ]
    message = "; ".join(fields) or own_message or message_for(status)
    return Described(status, message, headers, {})


def _rejections(name: str, said: Any) -> Iterator[str]:
    """Yield what was expected of a field, or of each member of the objects in its list."""
    if not isinstance(said, dict):
        yield f"{name} {' '.join(said)}"
        return
    for key, inner in said.items():
        step = f"[{key}]" if isinstance(key, int) else f".{shown_name(key)}"
        yield from _rejections(f"{name}{step}", inner)


def _on_unexpected_error(error: Exception) -> Response:
    cause = error.original_exception if isinstance(error, InternalServerError) else error
    # What hooks raise after the view comes here, whatever it is.
    if isinstance(cause, Exception) and cause is not error and _is_unavailable(cause):
        return _on_database_error(cause)
    _log.error("unexpected_error", exc_info=cause or error)
    return _respond(Described(500, MESSAGES[500], {}, {}))
