"""Requests that other sites can make a browser send are rejected; our own pages work."""

from io import BytesIO

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.cases import each_case
from tests.service.support.scenes import AUDITS, INGEST, Sessions, Tenant, batch, error_of, sign_in

EARLY_ACCESS = "/api/v1/early-access"
OWN: tuple[dict[str, str], ...] = (
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
    {"Origin": "http://localhost:8000"},  # as BASE_URL says
    {"Origin": "http://localhost"},  # as the request was sent
)
FOREIGN: tuple[dict[str, str], ...] = (
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "https://localhost:8000"},
    {"Origin": "http://localhost:8001"},
    {"Origin": "http://localhost:8000.evil.example"},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "whatever"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8000"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def signed_in(sessions: Sessions) -> dict[str, str]:
    return sign_in(sessions, "ada@example.org")


@each_case("headers", OWN)
def test_our_own_pages_and_programs_pass(
    client: FlaskClient, signed_in: dict[str, str], headers: dict[str, str]
) -> None:
    answer = client.post(EARLY_ACCESS, json={}, headers={**signed_in, **headers})
    assert answer.status_code in (422, 429)


@each_case("headers", FOREIGN)
def test_another_sites_page_is_rejected(
    client: FlaskClient, signed_in: dict[str, str], headers: dict[str, str]
) -> None:
    answer = client.post(EARLY_ACCESS, json={}, headers={**signed_in, **headers})
    message = error_of(answer, 403, "forbidden")
    assert message == "We blocked this request because it came from another site."
    assert error_of(client.post("/auth/logout", headers=headers), 403, "forbidden")
    for path in ("/upload", AUDITS):
        file = {"file": (BytesIO(b"{}"), "calls.jsonl")}
        answer = client.post(path, data=file, headers={**signed_in, **headers})
        assert answer.status_code == 403
        assert message in answer.text


@each_case("headers", FOREIGN)
def test_without_a_session_the_api_has_nothing_to_lose(
    client: FlaskClient, tenant: Tenant, headers: dict[str, str]
) -> None:
    answer = client.post(INGEST, json=batch(), headers={**tenant.writes, **headers})
    assert answer.status_code == 201


@each_case("headers", FOREIGN)
def test_safe_requests_are_answered_wherever_the_link_is(
    client: FlaskClient, signed_in: dict[str, str], headers: dict[str, str]
) -> None:
    answer = client.get("/settings/sessions", headers={**signed_in, **headers})
    assert answer.status_code == 200


def test_what_is_nowhere_or_takes_no_post_is_said_first(
    client: FlaskClient, signed_in: dict[str, str]
) -> None:
    headers = {**signed_in, "Origin": "http://evil.example"}
    assert client.post("/nowhere", headers=headers).status_code == 404
    assert client.post("/healthz", headers=headers).status_code == 405


def test_a_form_that_is_too_large_is_not_read(
    client: FlaskClient, signed_in: dict[str, str]
) -> None:
    path, form = "/settings/sessions/revoke-others", {"csrf_token": "x" * 100_000}
    assert client.post(path, data=form, headers=signed_in).status_code == 413
