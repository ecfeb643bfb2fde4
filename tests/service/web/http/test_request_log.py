"""Each request has one ID and one log line, without secrets."""

import io
import json
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from structlog.contextvars import get_contextvars

from service.core.tokens import sign_report
from tests.service.support.scenes import INGEST, Tenant, batch, error_of, record


def _lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_request_is_one_json_line_with_its_id(
    client: FlaskClient, tenant: Tenant, log: io.StringIO
) -> None:
    response = client.post(INGEST, json=batch(), headers=tenant.writes)
    [line] = _lines(log)
    assert line["event"] == "request"
    assert line["request_id"] == response.headers["X-Request-Id"]
    assert (line["method"], line["route"], line["status"]) == ("POST", INGEST, 201)
    assert line["account_id"] == tenant.account_id
    assert line["duration_ms"] > 0
    # An errors id is in its log line.
    response = client.post(INGEST)
    error_of(response, 401, "unauthorized")
    assert _lines(log)[1]["request_id"] == response.get_json()["error"]["request_id"]


def test_a_callers_own_id_is_used_unless_it_has_another_shape(client: FlaskClient) -> None:
    def answered(given: str) -> str:
        return client.get("/", headers={"X-Request-Id": given}).headers["X-Request-Id"]

    for given in ("0f0e0d0c1111422283334444555566AA", "0f0e0d0c-1111-4222-8333-444455556666"):
        assert answered(given) == given
    for given in (
        *("", "abcd-1234", "a" * 31, "a" * 33, "a" * 64, "with space 123", 'quote"quote1'),
        *("a{b}c[d]e", "\xe9" * 32, "ada-lovelace-example-org-5550100"),
        *("ik_0123456789abcdefghijklmnopqrst", "0f0e0d0c-1111-4222-8333-44445555666"),
        "0f0e0d0c11-11-4222-8333-444455556666",
    ):
        assert answered(given) != given
        assert len(answered(given)) == 32
    # It does not outlive its request.
    assert "request_id" not in get_contextvars()


def test_a_reports_token_is_not_logged(app: Flask, client: FlaskClient, log: io.StringIO) -> None:
    token = sign_report(app.extensions["config"].secret_key, "0" * 32)
    client.get(f"/r/{token}?access_token={token}")
    assert token[:20] not in log.getvalue()
    assert _lines(log)[0]["route"] == "/r/<token>"


def test_no_key_no_record_and_no_query_is_logged(
    client: FlaskClient, tenant: Tenant, log: io.StringIO
) -> None:
    body = {"records": [record(tag="CANARY-tag", request_id="CANARY-id")]}
    client.post(f"{INGEST}?q=CANARY-query", json=body, headers=tenant.writes)
    client.post(INGEST, json=body, headers={"Authorization": f"Bearer x{tenant.key}"})
    client.get("/CANARY-path")
    assert "CANARY" not in log.getvalue()
    assert tenant.key[3:] not in log.getvalue()
    events = [line["event"] for line in _lines(log)]
    assert events == ["request", "security_event", "request", "request"]


def test_an_unexpected_error_is_logged_by_type_and_location_only(
    app: Flask, client: FlaskClient, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise ValueError("CANARY in an exception")

    monkeypatch.setitem(app.view_functions, "docs.reference", fail)
    client.get("/docs")
    [error, request] = _lines(log)
    assert error["event"] == "unexpected_error"
    assert error["error_type"] == "builtins.ValueError"
    assert error["request_id"] == request["request_id"]
    assert any("test_request_log" in frame for frame in error["traceback"])
    assert "CANARY" not in log.getvalue()


def test_an_odd_method_cannot_write_into_the_log(client: FlaskClient, log: io.StringIO) -> None:
    for method in ("G\r\nET", "MYPASSWORDISHUNTERTWO"):
        client.open("/", method=method)
    assert [line["method"] for line in _lines(log)] == ["other"] * 2
