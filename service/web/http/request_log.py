"""Assign an ID to each request and write one log line for it."""

import re
import time
from typing import Final
from uuid import uuid4

import structlog
from flask import Flask, Response, g, request

from service.core.logs import get_logger

HEADER: Final = "X-Request-Id"
# A caller's own ID is used only if it can't break a log line.
_SHAPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}")

_log = get_logger(__name__)


def log_requests(app: Flask) -> None:
    # This hook comes first, so that every later failure can be logged with the request ID.
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
    # Log the route's pattern, because paths and queries contain tokens and callers' text.
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
    # The thread serves other requests next, and some of those fail before they get an ID.
    structlog.contextvars.clear_contextvars()
