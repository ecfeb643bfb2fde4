"""Caps by plan: queued audits, stored bytes, and the processing time of failed uploads."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from service.models import Audit, FailedWork, Subscription
from service.models.audits.capacity import add_failed_seconds, delete_old_days
from service.models.base import utc_now
from service.web.auth import caps
from tests.service.support.changing import by_plan
from tests.service.support.oauth_flow import browser_of
from tests.service.support.scenes import (
    AUDITS,
    INGEST,
    Sessions,
    Tenant,
    add_account,
    add_tenant,
    batch,
    error_of,
)
from tests.service.support.uploads import MULTIPART, add_person, log_file, one_file

Share = Callable[..., Flask]


def _send(app: Flask, tenant: Tenant, **headers: str) -> TestResponse:
    return app.test_client().post(INGEST, json=batch(1), headers={**tenant.writes, **headers})


def test_a_full_queue_gets_a_429_until_audits_are_done(
    share_app: Share, sessions: Sessions, tenant: Tenant
) -> None:
    app = share_app(queued_audits=by_plan(1, 3, 5))
    assert [_send(app, tenant).status_code for _ in range(3)] == [201] * 3
    response = _send(app, tenant)
    message = error_of(response, 429, "rate_limited")
    assert message.startswith("3 of your audits are queued, the most that your plan allows.")
    assert int(response.headers["Retry-After"]) > 0
    # It is that of one account, and longer in a larger plan.
    assert _send(app, add_tenant(sessions)).status_code == 201
    with sessions() as session:
        owned = Subscription.account_id == tenant.account_id
        session.execute(update(Subscription).where(owned).values(plan="team"))
        session.commit()
    assert [_send(app, tenant).status_code for _ in range(3)] == [201, 201, 429]
    with sessions() as session:
        session.execute(update(Audit).values(status="done"))
        session.commit()
    assert _send(app, tenant).status_code == 201


def test_a_queue_that_is_far_from_full_is_counted_once_a_second(
    share_app: Share, tenant: Tenant, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "_COUNT_SECONDS", 3_600.0)
    app = share_app(queued_audits=by_plan(1, 40, 40))
    for _ in range(4):
        assert _send(app, tenant).status_code == 201
    # The bounds are 0, 16 and 32, which is almost full, so its place is counted; 48 may be full.
    assert len([one for one in statements if "count(" in one and "audits.status" in one]) == 3


def test_what_a_full_queue_still_takes_and_what_a_refused_batch_leaves(
    share_app: Share, tenant: Tenant, sessions: Sessions
) -> None:
    app = share_app(queued_audits=by_plan(1, 1, 1))
    keyed = {"Idempotency-Key": "one"}
    assert _send(app, tenant, **keyed).status_code == 201
    assert _send(app, tenant, **keyed).status_code == 200
    assert _send(app, tenant).status_code == 429
    # A refused batch leaves nothing.
    before = len(list(_blobs(app)))
    _send(app, tenant)
    assert len(list(_blobs(app))) == before
    with sessions() as session:
        assert len(session.scalars(select(Audit)).all()) == 1
    # Agents own totals are taken although the queue is full.
    client = app.test_client(use_cookies=False)
    found = {}
    for path in ("logs", "metrics"):
        answer = client.post(f"/otlp/v1/{path}", json={}, headers=tenant.writes)
        found[path] = answer.status_code
    assert found == {"logs": 429, "metrics": 200}


def _blobs(app: Flask) -> list[str]:
    return list(app.extensions["blobs"].list_old("raw", -60.0))


def test_a_full_storage_gets_a_402(
    share_app: Share, sessions: Sessions, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "_SUM_SECONDS", 0.0)
    app = share_app(stored_bytes=by_plan(1, 1 << 30, 1 << 40))
    assert _send(app, tenant).status_code == 201
    with sessions() as session:
        stored = session.scalars(select(Audit)).one()
        assert stored.raw_bytes
        assert stored.raw_bytes > 50
        stored.frame_bytes = (1 << 30) - stored.raw_bytes
        session.commit()
    response = _send(app, tenant)
    assert response.status_code == 402
    error = response.get_json()["error"]
    assert error["code"] == "payment_required"
    assert error["payment_links"]
    assert error["message"].startswith("Your storage is full: your plan includes 1 GiB.")
    with sessions() as session:
        session.execute(update(Audit).values(raw_purged_at=utc_now()))
        session.commit()
    assert _send(app, tenant).status_code == 201


def _upload(client: FlaskClient, key: str | None = None) -> TestResponse:
    headers = {"Sec-Fetch-Site": "same-origin"} | ({"Idempotency-Key": key} if key else {})
    body = one_file(log_file(3))
    return client.post(AUDITS, data=body, content_type=MULTIPART, headers=headers)


def test_failed_uploads_use_up_a_days_processing_time(share_app: Share, sessions: Sessions) -> None:
    app = share_app(failed_work_seconds_per_day=60)
    person = add_person(sessions, 3)
    client = app.test_client()
    browser_of(sessions, client, person.account_id)
    audit_id = _upload(client, "first").get_json()["audit_id"]
    with sessions() as session:
        add_failed_seconds(session.connection(), audit_id, 59.0)
        session.commit()
    assert _upload(client).status_code == 201
    with sessions() as session:
        add_failed_seconds(session.connection(), audit_id, 2.0)
        session.commit()
    response = _upload(client)
    message = error_of(response, 429, "rate_limited")
    assert "failed after more than 60 seconds of processing today" in message
    assert 0 < int(response.headers["Retry-After"]) <= 86_401
    assert _upload(client, "first").status_code == 200


def test_another_day_starts_at_zero(db_session: Session) -> None:
    account = add_account(db_session, email="days@example.org")
    days = [datetime(2026, 1, 1, tzinfo=UTC).date(), utc_now().date()]
    db_session.add_all(FailedWork(account_id=account.id, day=day, seconds=9e9) for day in days)
    db_session.flush()
    assert delete_old_days(db_session.connection()) == 1
    assert [row.day for row in db_session.scalars(select(FailedWork))] == days[1:]


def test_time_of_batches_is_not_counted(sessions: Sessions, tenant: Tenant) -> None:
    with sessions() as session:
        audit = Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x.jsonl")
        session.add(audit)
        session.flush()
        add_failed_seconds(session.connection(), audit.id, 5.0)
        assert session.scalars(select(FailedWork)).all() == []
