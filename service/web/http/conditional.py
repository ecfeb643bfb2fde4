"""Conditional responses (`ETag`, `If-None-Match`, 304) and rate limit headers."""

import math
import time
from typing import Any, Final

from flask import Response, request
from redis.exceptions import RedisError

from service.web.http.limits import limiter

IF_NONE_MATCH_DOCUMENT: Final = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "description": "The `ETag` of an earlier response. Returns 304 if nothing changed.",
    "schema": {"type": "string"},
}
NOT_MODIFIED: Final = "Nothing changed since the response with this `ETag`."


def _number(words: str) -> dict[str, Any]:
    return {"description": words, "schema": {"type": "integer", "minimum": 0}}


LIMIT_HEADERS: Final = {
    "RateLimit-Limit": _number("Requests allowed per minute."),
    "RateLimit-Remaining": _number("Requests remaining in the current window."),
    "RateLimit-Reset": _number("Seconds until more requests are allowed."),
}
ETAG_HEADERS: Final = {
    "ETag": {
        "description": "Identifies this version of the response.",
        "schema": {"type": "string"},
    },
    **LIMIT_HEADERS,
}


def add_conditions(response: Response) -> Response:
    """Add an `ETag`, and respond with 304 if the caller already has this version."""
    if response.status_code == 200 and request.method in ("GET", "HEAD"):
        response.add_etag()
        response.make_conditional(request)
    return response


def add_limit_headers(response: Response) -> Response:
    """Add the rate limit headers of this request."""
    limit = limiter.current_limit
    if limit is None:
        return response
    try:
        reset_at, remaining = limit.window
    except (RedisError, OSError):
        return response  # Redis is down; the in-memory fallback has only just started counting
    response.headers["RateLimit-Limit"] = str(limit.limit.amount)
    response.headers["RateLimit-Remaining"] = str(max(0, remaining))
    response.headers["RateLimit-Reset"] = str(max(0, math.ceil(reset_at - time.time())))
    return response
