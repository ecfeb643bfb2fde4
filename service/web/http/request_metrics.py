"""Count and trace requests by the route's pattern; paths may contain tokens."""

import time
from typing import Final

from flask import Flask, Response, g, request

from service.core.telemetry.counters import REQUEST_SECONDS, REQUESTS, WEBHOOKS
from service.core.telemetry.traces import begin_request, end_request, is_traced
from service.web.http.paths import API_PREFIX
from service.web.http.request_log import known_method

_WEBHOOKS: Final = f"{API_PREFIX}/webhooks/"
_NO_ROUTE: Final = "none"
_FAILED: Final = 500


def count_requests(app: Flask) -> None:
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
