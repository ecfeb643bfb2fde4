"""POST /otlp/v1/traces, /logs and /metrics: what OpenTelemetry's exporters send."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from flask import Response, request
from sqlalchemy import insert

from service.core.telemetry.counters import ACCEPTED_RECORDS
from service.core.tokens import begin_series_hash
from service.errors import BadRequestError, UnsupportedMediaTypeError
from service.models.base import utc_now
from service.models.connections.agent_totals import add_measured
from service.models.identity.accounts import find_tag_attribute
from service.models.imports.span_batches import SpanBatch
from service.models.imports.span_notices import note_spans
from service.web.auth.callers import (
    credential_id,
    current_caller,
    require_key,
    require_subscription,
)
from service.web.auth.caps import capped, count_stored
from service.web.http.bodies import bounded_body, plain_body
from service.web.http.current import current_config, get_session, release_connection
from service.web.http.limits import client_address, limiter, per_minute
from service.web.http.otlp_status import accepted_response
from service.web.openapi.blueprint import OTLP_STATUS, REQUEST_ID, Blueprint, decorated
from service.web.openapi.otlp_documents import (
    CONTENT_ENCODING,
    ERRORS,
    TAG_ATTRIBUTE,
    request_body,
    response,
)
from service.web.otlp.agent_metrics import MetricReading
from service.web.otlp.answers import (
    describe,
    describe_metrics,
    list_metric_notices,
    list_notices,
)
from service.web.otlp.requests import (
    LOG_READERS,
    METRIC_READERS,
    READERS,
    Calls,
    is_label_attribute,
    read_log_request,
    read_request,
)

TAG_HEADER: Final = TAG_ATTRIBUTE["name"]
_STORED: Final = (
    "Stored. Spans with text are rejected; the message says how to turn it off, and which spans"
    " don't count. Spans that are no calls are not used."
)
_MAX_BYTES: Final = 16 * 1024 * 1024
_STORED_LOGS: Final = (
    "Stored: the answers that Claude Code, Codex and Gemini CLI log. Log records with text are"
    " rejected; the message says how to turn it off. Others are not used."
)
_STORED_METRICS: Final = (
    "The tokens that Claude Code, Codex, Gemini CLI and Copilot count themselves are stored, to"
    " compare them with your calls; they don't count as spend. Data points that can't be read are"
    " rejected, and other metrics are ignored."
)
_UNSUPPORTED: Final = "Unsupported Content-Type: use application/x-protobuf or application/json."

blueprint = Blueprint("otlp", __name__, description="Send OpenTelemetry traces.")
F = TypeVar("F", bound=Callable[..., Any])


def _documented(kind: str, rejected: str, when: str, errors: Mapping[int, str]) -> Callable[[F], F]:
    """Return the decorators that route and document a kind of request."""
    name = "traces" if kind == "Trace" else kind.lower()
    parameters = [CONTENT_ENCODING] if kind == "Metrics" else [CONTENT_ENCODING, TAG_ATTRIBUTE]
    success = {200: response(rejected, when, REQUEST_ID)}
    return decorated(
        blueprint.route(f"/{name}", methods=["POST"]),
        blueprint.doc(responses=success),
        blueprint.documented(
            operation=f"export_{name}",
            security="ingest_key",
            parameters=parameters,
            errors=errors,
            media_type=OTLP_STATUS,
            requestBody=request_body(kind),
        ),
    )


def _limited(view: F) -> F:
    """Require an ingest key, limit its requests, and read the body within its limit."""
    return decorated(
        require_key,
        limiter.shared_limit(
            per_minute("otlp_key_limit_per_minute"), "OTLP key", key_func=credential_id
        ),
        limiter.shared_limit(
            per_minute("otlp_ip_limit_per_minute"), "OTLP address", key_func=client_address
        ),
        require_subscription,
        bounded_body(_MAX_BYTES),
    )(view)


@_documented("Trace", "rejectedSpans", _STORED, ERRORS)
@_limited
@capped
def traces() -> Response:
    """Store the calls in spans."""
    reader = READERS.get(request.mimetype)
    if reader is None:
        raise UnsupportedMediaTypeError(_UNSUPPORTED)
    calls = read_request(bytes(plain_body()), reader, _tag_attribute())
    _store(calls)
    return _accepted(calls)


@_documented("Logs", "rejectedLogRecords", _STORED_LOGS, ERRORS)
@_limited
@capped
def logs() -> Response:
    """Store the calls that coding agents log."""
    reader = LOG_READERS.get(request.mimetype)
    if reader is None:
        raise UnsupportedMediaTypeError(_UNSUPPORTED)
    calls = read_log_request(bytes(plain_body()), reader, _tag_attribute())
    _store(calls)
    return _accepted(calls)


@_documented("Metrics", "rejectedDataPoints", _STORED_METRICS, ERRORS)
@_limited
def metrics() -> Response:
    """Store what coding agents count of their own tokens: neither queued nor stored data."""
    release_connection()  # before the body is decoded
    reader = METRIC_READERS.get(request.mimetype)
    if reader is None:
        raise UnsupportedMediaTypeError(_UNSUPPORTED)
    account_id = current_caller().account_id
    series_hash = begin_series_hash(current_config().secret_key, account_id)
    reading = MetricReading(series_hash, utc_now())
    reader(bytes(plain_body()), reading)
    notices = list(list_metric_notices(reading))
    if reading.measured or notices:
        session = get_session()
        add_measured(session.connection(), account_id, reading.measured)
        note_spans(session, account_id, 0, notices)  # data points are no calls that were read
        session.commit()
    return accepted_response(sum(reading.refused.values()), describe_metrics(reading))


def _accepted(calls: Calls) -> Response:
    with_text = sum(count for count, _ in calls.texts.values())
    rejected = with_text + calls.rejected + calls.large
    return accepted_response(rejected, " ".join(describe(calls)))


def _tag_attribute() -> str | None:
    """Return the attribute that the exporter's headers or else the account choose as the tag."""
    name = request.headers.get(TAG_HEADER)
    if name is None:
        return find_tag_attribute(get_session(), current_caller().account_id)
    if not is_label_attribute(name):
        raise BadRequestError(f"{TAG_HEADER} must name an attribute that holds a label.")
    return name


def _store(calls: Calls) -> None:
    """Store the calls durably, and what is to be said: the response follows the commit."""
    caller, session = current_caller(), get_session()
    size = len(calls.lines) + len(calls.keys) + len(calls.links)
    notices = list(list_notices(calls))
    if not size and not notices:
        return
    if size:
        row = {
            "account_id": caller.account_id,
            "client": caller.client,
            "environment": calls.environment,
            "calls": calls.calls,
            "size": size,
            "lines": calls.lines,
            "keys": calls.keys,
            "links": calls.links,
        }
        session.execute(insert(SpanBatch).values(row))
    note_spans(session, caller.account_id, calls.calls, notices)
    session.commit()
    count_stored(caller.account_id, size)
    ACCEPTED_RECORDS.labels("otlp").inc(calls.calls)
