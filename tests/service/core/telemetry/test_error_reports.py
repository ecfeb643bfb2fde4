"""Errors reach Sentry with their types and locations, and with nothing that anybody sent."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sentry_sdk
from flask import Flask, request
from flask.testing import FlaskClient

from service.config import Config
from service.core.logs import get_logger
from service.core.telemetry.error_reports import (
    flush_reports,
    keep_allowed,
    report_error,
    start_reports,
)
from tests.service.support.receiver import Received, running_receiver
from tests.service.support.scenes import Tenant

CANARY = "CANARY-7f3a"
SECRET = "a-part-of-the-dsn"


@pytest.fixture
def sentry(config: Config) -> Iterator[Received]:
    with running_receiver() as received:
        dsn = f"http://{SECRET}@127.0.0.1:{received.port}/42"
        start_reports(replace(config, sentry_dsn=dsn))
        yield received
        start_reports(config)
        sentry_sdk.get_client().close(timeout=0)
        sentry_sdk.get_global_scope().set_client(None)


def events(received: Received) -> list[dict[str, Any]]:
    flush_reports()
    lines = [json.loads(line) for body in received.bodies for line in body.splitlines()]
    return [line for line in lines if "exception" in line]


def fail() -> str:
    kept = f"{CANARY}-local {request.get_data(as_text=True)}"
    try:
        raise KeyError(kept)
    except KeyError as error:
        raise ValueError(f"{CANARY} in an exception") from error


def test_an_error_is_reported_by_type_and_location_and_nothing_sent_leaves(
    app: Flask,
    client: FlaskClient,
    tenant: Tenant,
    sentry: Received,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(app.view_functions, "docs.reference", fail)
    client.set_cookie("session", f"{CANARY}-cookie")
    response = client.get(
        f"/docs?query={CANARY}",
        data=f"{CANARY}-body",
        headers={**tenant.writes, "X-Other": CANARY, "User-Agent": f"{CANARY}-agent"},
    )
    assert response.status_code == 500
    (event,) = events(sentry)
    cause, error = event["exception"]["values"]
    assert (cause["type"], error["type"], error["module"]) == ("KeyError", "ValueError", "builtins")
    last = error["stacktrace"]["frames"][-1]
    assert (last["function"], last["filename"]) == (
        "fail",
        "tests/service/core/telemetry/test_error_reports.py",
    )
    assert event["tags"]["event"] == "unexpected_error"
    assert event["tags"]["request_id"] == response.headers["X-Request-Id"]
    assert sentry.paths == ["/api/42/envelope/"]
    text = b"".join(sentry.bodies)
    assert CANARY.encode() not in text
    for secret in (tenant.key, tenant.account_id, "Authorization", "127.0.0.1", "Cookie"):
        assert secret.encode() not in text
    for name in ("request", "user", "breadcrumbs", "extra", "modules", "server_name", "contexts"):
        assert name not in event
    assert not {"vars", "context_line", "abs_path"} & {key for key in last}


def test_the_same_error_is_reported_ten_times_only(sentry: Received) -> None:
    log = get_logger(__name__)
    for number in range(25):
        log.error("job_failed", exc_info=RuntimeError(CANARY), audit_id=f"{number:032x}")
    log.error("job_failed", exc_info=OSError(CANARY))
    log.warning("postponed", exc_info=OSError(CANARY))
    found = [event["exception"]["values"][-1]["type"] for event in events(sentry)]
    assert (found.count("RuntimeError"), found.count("OSError")) == (10, 1)
    assert CANARY.encode() not in b"".join(sentry.bodies)


def test_only_fields_on_the_list_are_kept(config: Config) -> None:
    added = {"request": {"data": CANARY}, "extra": {"argv": CANARY}, "level": "error"}
    assert keep_allowed(added) == {"level": "error"}
    # Without a dsn nothing is reported.
    start_reports(config)
    report_error(ValueError(CANARY), {"event": "x"})
    flush_reports()
    assert not sentry_sdk.get_client().is_active()
