"""The service's errors: classes, codes and messages, without a web framework.

`web/http/error_responses.py` turns them into responses. Messages are safe to show: they never
repeat input.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

RETRY_SECONDS: Final = 2  # long enough for a database to restart, short enough to wait for

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

# The same statuses in OAuth's own error shape.
OAUTH_CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "invalid_client",
    429: "temporarily_unavailable",
    500: "server_error",
    503: "temporarily_unavailable",
}

MESSAGES: Final[Mapping[int, str]] = {
    400: "The request is malformed.",
    401: "Missing or invalid credentials.",
    402: "This requires an active subscription or a credit.",
    403: "You don't have permission to do this.",
    404: "We couldn't find what you requested.",
    405: "This URL doesn't support that method.",
    413: "The request is too large.",
    414: "The URL is too long.",
    415: "Unsupported content type. Send application/json.",
    422: "The request doesn't match the schema in the API reference.",
    429: "Too many requests. Wait the number of seconds in the Retry-After header, then try again.",
    431: "The request headers are too large, or there are too many of them.",
    500: "Something went wrong on our side. If you contact support, include the request ID.",
    503: "The service is busy or restarting. Try again in a few seconds.",
}


class ServiceError(Exception):
    """Base of every error that the service raises: a status, a safe message, headers.

    `details` are added to the envelope next to the code, message and request ID.
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


class SealingError(ServiceError):
    """No key opens a sealed value."""

    def __init__(self, column: str) -> None:
        super().__init__(f"no key opens a value of {column}; add the key that sealed it")
        self.column = column


class ConfigError(ServiceError):
    """A setting is missing or malformed. The process stops before it serves a request."""


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


class RateLimitedError(ServiceError):
    """A cap of the account is reached; the caller should try again after some seconds."""

    status = 429

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message, {"Retry-After": str(retry_seconds)})


class UnavailableError(ServiceError):
    """A dependency of the request is down or busy; the caller should try again."""

    status = 503

    def __init__(self, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, {"Retry-After": str(RETRY_SECONDS), **(headers or {})})


def code_for(status: int) -> str:
    """Return the envelope's code; a status without its own code takes its class's general code."""
    return CODES.get(status) or (CODES[400] if status < 500 else CODES[500])


def oauth_code_for(status: int) -> str:
    return OAUTH_CODES.get(status) or OAUTH_CODES[400 if status < 500 else 500]


def message_for(status: int) -> str:
    return MESSAGES.get(status) or MESSAGES[400 if status < 500 else 500]


def envelope(
    status: int, message: str, request_id: str, details: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the JSON shape of every error of the API."""
    error = {"code": code_for(status), "message": message, "request_id": request_id}
    return {"error": {**error, **(details or {})}}
