"""What operators see of requests: an ID and a log line of each, counters and traces."""

import re
import time
from typing import Final
from uuid import uuid4

import structlog
from flask import Flask, Response, g, request

from service.core.logs import get_logger
from service.core.telemetry.counters import REQUEST_SECONDS, REQUESTS, WEBHOOKS
from service.core.telemetry.log_bounds import Share
from service.core.telemetry.traces import begin_request, end_request, is_traced
from service.web.http.paths import API_PREFIX

HEADER: Final = "X-Request-Id"
# Proxies send UUIDs, with or without hyphens. Anything else could be text, which logs would keep.
_SHAPE: Final = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
# Methods are whatever a caller writes.
_METHODS: Final = frozenset(
    {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
)

_WEBHOOKS: Final = f"{API_PREFIX}/webhooks/"
_NO_ROUTE: Final = "none"
_FIRST_ERROR: Final = 400
_FAILED: Final = 500
_SLOW_MS: Final = 1_000.0

_log = get_logger(__name__)


def log_requests(app: Flask, share: float = 1.0) -> None:
    """Log every failed or slow request, and this share of the others."""
    others = Share(share)

    # This hook comes first, so that every later failure can be logged with the request ID.
    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()
        given = request.headers.get(HEADER, "")
        g.request_id = given if _SHAPE.fullmatch(given) else uuid4().hex
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=g.request_id)

    @app.after_request
    def finish(response: Response) -> Response:
        response.headers[HEADER] = g.request_id
        duration_ms = round((time.perf_counter() - g.started) * 1000, 1)
        if response.status_code >= _FIRST_ERROR or duration_ms >= _SLOW_MS or others.take():
            # Log the route's pattern, because paths and queries contain tokens and callers' text.
            rule = request.url_rule.rule if request.url_rule is not None else None
            _log.info(
                "request",
                method=known_method(),
                route=rule,
                status=response.status_code,
                duration_ms=duration_ms,
                account_id=g.caller.account_id if "caller" in g else None,
            )
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        # The thread serves other requests next, and some of those fail before they get an ID.
        structlog.contextvars.clear_contextvars()


def known_method() -> str:
    """Return the request's method, or `other` for what a caller may have made up."""
    return request.method if request.method in _METHODS else "other"


def count_requests(app: Flask) -> None:
    """Count requests by the route's pattern, because paths may contain tokens."""

    @app.after_request
    def count(response: Response) -> Response:
        rule, method = _route(), known_method()
        REQUESTS.labels(rule, method, response.status_code).inc()
        REQUEST_SECONDS.labels(rule, method).observe(time.perf_counter() - g.started)
        if rule.startswith(_WEBHOOKS):
            refused = "refused" if response.status_code < 500 else "failed"
            outcome = "accepted" if response.status_code < 400 else refused
            WEBHOOKS.labels(rule.removeprefix(_WEBHOOKS), outcome).inc()
        return response


def trace_requests(app: Flask) -> None:
    """Trace requests of an application, unless traces are off: then it gets no hooks."""
    if is_traced():

        @app.before_request
        def begin() -> None:
            begin_request(known_method(), _route())

        @app.after_request
        def end(response: Response) -> Response:
            end_request(response.status_code)
            return response

        @app.teardown_request
        def forget(_error: BaseException | None) -> None:
            # The thread serves other requests next; of this one, a hook after the view may have
            # failed.
            end_request(_FAILED)


def _route() -> str:
    return request.url_rule.rule if request.url_rule is not None else _NO_ROUTE
