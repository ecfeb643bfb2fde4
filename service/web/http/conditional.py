"""Answers that a caller may have already: `ETag`, `If-None-Match`, 304. And what is left to ask."""

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
    "description": "The `ETag` of an earlier answer: 304 without a body where nothing changed.",
    "schema": {"type": "string"},
}
NOT_MODIFIED: Final = "Nothing changed since the answer with this `ETag`."


def _number(words: str) -> dict[str, Any]:
    return {"description": words, "schema": {"type": "integer", "minimum": 0}}


LIMIT_HEADERS: Final = {
    "RateLimit-Limit": _number("Requests that a minute has."),
    "RateLimit-Remaining": _number("Requests that are left of it."),
    "RateLimit-Reset": _number("Seconds until more are left."),
}
ETAG_HEADERS: Final = {
    "ETag": {"description": "Names this very answer.", "schema": {"type": "string"}},
    **LIMIT_HEADERS,
}


def add_conditions(response: Response) -> Response:
    """Let a caller who has this answer already do without its body."""
    if response.status_code == 200 and request.method in ("GET", "HEAD"):
        response.add_etag()
        response.make_conditional(request)
    return response


def tell_limit(response: Response) -> Response:
    """Say how much is left of the limit that this request counted towards."""
    limit = limiter.current_limit
    if limit is None:
        return response
    try:
        reset_at, remaining = limit.window
    except (RedisError, OSError):
        return response  # what limits now is another counter, which has just begun
    response.headers["RateLimit-Limit"] = str(limit.limit.amount)
    response.headers["RateLimit-Remaining"] = str(max(0, remaining))
    response.headers["RateLimit-Reset"] = str(max(0, math.ceil(reset_at - time.time())))
    return response
