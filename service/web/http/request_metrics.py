"""Count requests by the route's pattern; paths may contain tokens."""

import time
from typing import Final

from flask import Flask, Response, g, request

from service.core.telemetry.counters import REQUEST_SECONDS, REQUESTS, WEBHOOKS
from service.web.http.paths import API_PREFIX

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WEBHOOKS: Final = f"{API_PREFIX}/webhooks/"
_NO_ROUTE: Final = "none"


def count_requests(app: Flask) -> None:
    app.after_request(_count)


def _count(response: Response) -> Response:
    rule = request.url_rule.rule if request.url_rule is not None else _NO_ROUTE
    method = request.method if request.method in _METHODS else "other"
    REQUESTS.labels(rule, method, response.status_code).inc()
    REQUEST_SECONDS.labels(rule, method).observe(time.perf_counter() - g.started)
    if rule.startswith(_WEBHOOKS):
        WEBHOOKS.labels(rule.removeprefix(_WEBHOOKS), _outcome(response.status_code)).inc()
    return response


def _outcome(status: int) -> str:
    if status < 400:
        return "accepted"
    return "refused" if status < 500 else "failed"
