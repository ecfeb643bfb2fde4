"""One id and one log line a request."""

import re
import time
from typing import Final
from uuid import uuid4

import structlog
from flask import Flask, Response, g, request

from service.core.logs import get_logger

HEADER: Final = "X-Request-Id"
# A caller's own id is taken only where it cannot break a log line or pass for anything else.
_SHAPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}")

_log = get_logger(__name__)


def follow_requests(app: Flask) -> None:
    # First of all hooks: whatever fails later names the id.
    app.before_request(_begin)
    app.after_request(_finish)
    app.teardown_request(_forget)


def _begin() -> None:
    g.started = time.perf_counter()
    given = request.headers.get(HEADER, "")
    g.request_id = given if _SHAPE.fullmatch(given) else uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)


def _finish(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    # The route's pattern, never the path or the query: those carry tokens and callers' text.
    rule = request.url_rule.rule if request.url_rule is not None else None
    _log.info(
        "request",
        method=request.method if request.method.isalpha() else "?",
        route=rule,
        status=response.status_code,
        duration_ms=round((time.perf_counter() - g.started) * 1000, 1),
        account_id=g.caller.account_id if "caller" in g else None,
    )
    return response


def _forget(_error: BaseException | None) -> None:
    # The thread goes on to other requests, and some of those never get as far as an id.
    structlog.contextvars.clear_contextvars()
