"""Error envelopes under /api/v1, error pages elsewhere, and the headers of every response."""

import re
from collections.abc import Callable
from contextlib import suppress

import psycopg2
import pytest
from flask import Flask, Response
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    PendingRollbackError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from detectors.errors import DetectorError
from service.app import create_app
from service.config import Config
from service.core.blobs import BlobError, BlobNotFoundError
from service.errors import ConfigError, NotFoundError, UnavailableError
from service.web.http.current import get_session
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, INGEST, Tenant, batch, error_of

SECRET_TEXT = "CANARY in an exception"


def _breaking_app(make_app: Callable[..., Flask], error: Exception) -> Flask:
    """An application with two routes that fail like this, one of the API and one page."""
    app = make_app()

    def fail() -> str:
        raise error

    app.add_url_rule("/api/v1/fail", view_func=fail)
    app.add_url_rule("/fail", "fail_page", view_func=fail)
    return app


@pytest.mark.parametrize("path", ["/api/v1/fail", "/fail"])
def test_a_storage_that_fails_is_worth_a_retry(
    make_app: Callable[..., Flask], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On every route: not only where batches and files are stored."""
    client = _breaking_app(make_app, BlobError("S3 didn't respond in time")).test_client()
    response = client.get(path)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    if path.startswith("/api"):
        message = error_of(response, 503, "unavailable")
        assert message.startswith("Storage is temporarily unavailable.")
    assert "S3 didn't respond in time" in caplog.text
    missing = _breaking_app(make_app, BlobNotFoundError("raw/x.jsonl")).test_client()
    assert missing.get(path).status_code == 500


@each_case("path", ["/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/audits/", "/api/v1//ingest"])
@each_case("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_an_unknown_route_of_the_api_has_the_envelope(
    client: FlaskClient, path: str, method: str
) -> None:
    error_of(client.open(path, method=method), 404, "not_found")


@each_case("path", ["/nothing", "/api", "/api/v3/ingest", "/api/v1x", "/r", "/r/"])
def test_an_unknown_route_elsewhere_has_a_page(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response.mimetype == "text/html"
    assert response.headers["X-Request-Id"] in response.get_data(as_text=True)


@each_case(
    ("accept", "mimetype"),
    [
        ("application/json", "application/json"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("text/html, application/json;q=0.9", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("*/*", "text/html"),
        ("image/png", "text/html"),
    ],
)
def test_an_error_outside_the_api_follows_accept(
    client: FlaskClient, accept: str, mimetype: str
) -> None:
    for path in ("/nothing", "/r/dead", "/r/dead/pdf", "/admin"):
        headers = {"Accept": accept, "X-Admin-Token": "wrong"}
        response = client.get(path, headers=headers)
        assert (response.status_code, response.mimetype) == (404, mimetype)
        assert response.headers["Cache-Control"] == "no-store"
        if response.is_json:
            error_of(response, 404, "not_found")


@each_case(("path", "method"), [(INGEST, "GET"), (INGEST, "PUT"), (AUDITS, "PUT")])
def test_an_unsupported_method_names_the_supported_ones(
    client: FlaskClient, path: str, method: str
) -> None:
    response = client.open(path, method=method)
    error_of(response, 405, "method_not_allowed")
    assert "POST" in response.headers["Allow"] or "GET" in response.headers["Allow"]


def test_an_unexpected_error_reveals_nothing(make_app: Callable[..., Flask]) -> None:
    client = _breaking_app(make_app, RuntimeError(SECRET_TEXT)).test_client()
    response = client.get("/api/v1/fail")
    assert SECRET_TEXT not in error_of(response, 500, "internal_error")
    page = client.get("/fail")
    assert page.status_code == 500
    assert SECRET_TEXT not in page.get_data(as_text=True)
    assert page.headers["X-Request-Id"] in page.get_data(as_text=True)


ERRORS: list[tuple[Exception, int, str]] = [
    (OperationalError("x", {}, Exception()), 503, "unavailable"),
    (PoolTimeoutError(), 503, "unavailable"),
    (UnavailableError(), 503, "unavailable"),
    (DatabaseError("x", {}, psycopg2.DatabaseError("no message")), 503, "unavailable"),
    (InterfaceError("x", {}, psycopg2.InterfaceError("closed")), 503, "unavailable"),
    (PendingRollbackError("x", code="8s2b"), 503, "unavailable"),
    (PendingRollbackError("x", code="7s2a"), 500, "internal_error"),
    (IntegrityError("x", {}, Exception()), 500, "internal_error"),
    (DataError("x", {}, Exception()), 500, "internal_error"),
    (IntegrityError("x", {}, Exception(), connection_invalidated=True), 503, "unavailable"),
    (DetectorError("x"), 500, "internal_error"),
    (ConfigError("x"), 500, "internal_error"),
    (NotFoundError(), 404, "not_found"),
]


def test_each_error_has_its_status(make_app: Callable[..., Flask]) -> None:
    app, raised = make_app(), list[Exception]()

    @app.get("/api/v1/fail")
    def fail() -> str:
        raise raised.pop()

    for error, status, code in ERRORS:
        raised.append(error)
        response = app.test_client().get("/api/v1/fail")
        error_of(response, status, code)
        assert ("Retry-After" in response.headers) == (status == 503), error


def test_a_database_that_is_lost_in_a_hook_is_unavailable(make_app: Callable[..., Flask]) -> None:
    app, errors = make_app(), [OperationalError(SECRET_TEXT, {}, Exception())]

    def lose(response: Response) -> Response:
        if errors:
            raise errors.pop()
        return response

    app.after_request(lose)
    response = app.test_client().get("/api/v1/nothing")
    error_of(response, 503, "unavailable")
    assert "Retry-After" in response.headers
    assert SECRET_TEXT not in response.get_data(as_text=True)


def test_a_session_that_lost_its_connection_is_unavailable(own_database: Config) -> None:
    app = create_app(own_database)

    def query() -> str:
        session = get_session()
        session.execute(text("SELECT 1"))
        for _ in range(2):  # what swallows the first error meets another one
            with suppress(OperationalError):
                session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        session.execute(text("SELECT 1"))
        return ""

    app.add_url_rule("/api/v1/lose", view_func=query)
    error_of(app.test_client().get("/api/v1/lose"), 503, "unavailable")


def test_every_answer_carries_the_security_headers(
    make_app: Callable[..., Flask], tenant: Tenant
) -> None:
    client = _breaking_app(make_app, RuntimeError()).test_client()
    paths = [
        *("/", "/nothing", "/fail", "/api/v1/fail", "/api/v1/nothing", "/r/x", AUDITS),
        *("/healthz", "/readyz", "/openapi.json", "/static/tallystick.css", "/static/nothing"),
    ]
    answers = [*map(client.get, paths), client.put("/")]
    answers.append(client.post(INGEST, json=batch(), headers=tenant.writes))
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["Strict-Transport-Security"].startswith("max-age=31536000")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Request-Id"]
        answer.close()


def test_pages_keep_to_their_own_policy(client: FlaskClient) -> None:
    for path in ("/", "/nothing"):
        page = client.get(path).get_data(as_text=True)
        assert not re.search(r'<script(?! defer src="/static/)', page)
        assert "style=" not in page
        assert "<style" not in page
        # What a drawing names as its language is never asked for.
        assert "//" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    # No path redirects to a forged host.
    forged = ("//api/v1/ingest", "/api/v1//ingest", "//evil.example/", "/\\evil.example", "/r//x")
    for path in forged:
        response = client.get(path, headers={"Host": "evil.example"})
        assert response.status_code in (200, 404, 405)
        assert "Location" not in response.headers
        assert "evil" not in response.get_data(as_text=True)


def test_answers_of_the_api_are_kept_by_nobody_between(client: FlaskClient, tenant: Tenant) -> None:
    assert client.get(AUDITS).headers["Cache-Control"] == "no-store"
    # What has an ETag may be kept by who asked, and is asked for again each time.
    read = client.get(AUDITS, headers=tenant.reads)
    assert read.headers["Cache-Control"] == "private, no-cache"


@each_case("path", ["/", "/nowhere", "/sign-in", "/api/v1/audits"])
def test_a_host_of_which_no_address_can_be_made_is_a_bad_request(
    client: FlaskClient, path: str
) -> None:
    error_of(client.get(path, headers={"Host": "a" * 300}), 400, "bad_request")
