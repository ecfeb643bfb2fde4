"""The limits of ingest are exact, per key and per address, and hold without Redis."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.service.support.scenes import INGEST, Sessions, Tenant, add_tenant, batch, error_of

MakeApp = Callable[..., Flask]


def _address() -> str:
    """An address that no other test counts by."""
    digits = uuid4().hex
    return "fd" + ":".join([digits[:2], *(digits[i : i + 4] for i in range(2, 30, 4))])


def _post(
    client: FlaskClient, tenant: Tenant, address: str, forwarded: str | None = None
) -> TestResponse:
    headers = dict(tenant.writes)
    if forwarded is not None:
        headers["X-Forwarded-For"] = forwarded
    return client.post(INGEST, json=batch(), headers=headers, environ_base={"REMOTE_ADDR": address})


def test_a_key_is_limited_exactly_and_gets_the_time_to_wait(
    share_app: MakeApp, tenant: Tenant, sessions: Sessions
) -> None:
    client = share_app(ingest_key_limit_per_minute=10).test_client()
    statuses = [_post(client, tenant, _address()).status_code for _ in range(30)]
    assert statuses == [201] * 10 + [429] * 20
    response = _post(client, tenant, _address())
    error_of(response, 429, "rate_limited")
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    # Each key has a limit of its own.
    assert _post(client, add_tenant(sessions), _address()).status_code == 201


def test_an_address_is_limited_over_all_its_keys(share_app: MakeApp, sessions: Sessions) -> None:
    client, address = share_app(ingest_ip_limit_per_minute=10).test_client(), _address()
    tenants = [add_tenant(sessions) for _ in range(3)]
    statuses = [_post(client, tenants[i % 3], address).status_code for i in range(30)]
    assert statuses == [201] * 10 + [429] * 20
    assert _post(client, tenants[0], _address()).status_code == 201


def test_a_forged_forwarded_address_does_not_help(share_app: MakeApp, tenant: Tenant) -> None:
    client, address = share_app(ingest_ip_limit_per_minute=5).test_client(), _address()
    statuses = [
        _post(client, tenant, address, forwarded=f"10.0.0.{i}").status_code for i in range(50)
    ]
    assert statuses == [201] * 5 + [429] * 45


def test_behind_one_proxy_only_its_own_word_counts(share_app: MakeApp, tenant: Tenant) -> None:
    app = share_app(ingest_ip_limit_per_minute=5, trusted_proxies=1)
    client, proxy, real = app.test_client(), _address(), _address()
    forged = [
        _post(client, tenant, proxy, forwarded=f"10.0.0.{i}, {real}").status_code for i in range(50)
    ]
    assert forged == [201] * 5 + [429] * 45
    assert _post(client, tenant, proxy, forwarded=_address()).status_code == 201


def test_the_announced_wait_is_the_rest_of_the_window(share_app: MakeApp, tenant: Tenant) -> None:
    client = share_app(ingest_key_limit_per_minute=1).test_client()
    with time_machine.travel(datetime(2026, 3, 1, 12, tzinfo=UTC), tick=False) as clock:
        _post(client, tenant, _address())
        clock.shift(1.5)
        assert int(_post(client, tenant, _address()).headers["Retry-After"]) in (58, 59)


def test_a_limit_holds_over_any_sixty_seconds(share_app: MakeApp, tenant: Tenant) -> None:
    client = share_app(ingest_key_limit_per_minute=2).test_client()
    minute = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    statuses = []
    for seconds in (58, 59, 61, 117, 119):
        with time_machine.travel(minute + timedelta(seconds=seconds), tick=False):
            statuses.append(_post(client, tenant, _address()).status_code)
    assert statuses == [201, 201, 429, 429, 201]


def test_a_rejected_request_does_not_push_the_window_on(share_app: MakeApp, tenant: Tenant) -> None:
    client = share_app(ingest_key_limit_per_minute=1).test_client()
    waits = []
    for _ in range(3):
        response = _post(client, tenant, _address())
        waits.append(int(response.headers.get("Retry-After", 60)))
    assert waits == sorted(waits, reverse=True)


@pytest.mark.parametrize("nowhere", ["redis://127.0.0.1:1/0", "unix:///nowhere/valkey.sock"])
def test_without_redis_ingest_answers_quickly_and_stays_limited(
    share_app: MakeApp, tenant: Tenant, nowhere: str
) -> None:
    client = share_app(redis_url=nowhere, ingest_key_limit_per_minute=3).test_client()
    began = time.monotonic()
    statuses = [_post(client, tenant, _address()).status_code for _ in range(5)]
    assert statuses == [201, 201, 201, 429, 429]
    assert time.monotonic() - began < 30
