"""Audits of an account, which are other than those of its imports, and imports on request."""

from decimal import Decimal
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import Audit, SpanBatch
from service.models.base import utc_now
from service.models.imports.span_batches import list_accounts_due
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, Sessions, Tenant, error_of
from tests.service.support.spend import add_spend, spend_line
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

PATH = "/api/v1/account-audits"


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def person(sessions: Sessions) -> Person:
    return add_person(sessions)


@pytest.fixture
def called(sessions: Sessions, person: Person) -> Person:
    """An account with one stored file of three calls."""
    with sessions() as session:
        add_spend(session, person.account_id, spend_line(utc_now().date(), "12.34", calls=3))
    return person


def test_an_account_without_calls_is_asked_to_send_some(
    client: FlaskClient, person: Person
) -> None:
    response = client.post(PATH, headers=person.headers)
    assert error_of(response, 422, "validation_error") == (
        "Your account has no calls yet. Send a batch or upload a log first."
    )


def test_an_audit_of_the_account_is_queued_once(
    client: FlaskClient, called: Person, sessions: Sessions
) -> None:
    first = client.post(f"{PATH}?window_days=90", headers=called.headers)
    assert first.status_code == 202
    audit_id = first.get_json()["audit_id"]
    assert first.get_json()["status_url"].endswith(f"/api/v1/audits/{audit_id}/status")
    again = client.post(PATH, headers=called.headers)
    assert again.json == first.json
    with sessions() as session:
        (audit,) = session.scalars(select(Audit)).all()
    assert (audit.source, audit.window_days, audit.status) == ("account", 90, "queued")


@each_case("days", ["1", "31", "x", "30.0", ""])
def test_another_window_is_refused(client: FlaskClient, called: Person, days: str) -> None:
    response = client.post(f"{PATH}?window_days={days}", headers=called.headers)
    assert "must be 7, 30 or 90" in error_of(response, 422, "validation_error")


def test_the_list_has_audits_of_the_account_only_when_asked(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    ids = {
        source: add_run(sessions, tenant.account_id, source=source)
        for source in ("ingest", "upload", "account")
    }

    def listed(query: str = "") -> set[str]:
        answer: Any = client.get(f"{AUDITS}{query}", headers=tenant.reads).json
        return {audit["id"] for audit in answer["audits"]}

    assert listed() == {ids["ingest"], ids["upload"]}
    for source, audit_id in ids.items():
        assert listed(f"?source={source}") == {audit_id}
    response = client.get(f"{AUDITS}?source=x", headers=tenant.reads)
    assert "must be one of ingest, upload, account" in error_of(response, 422, "validation_error")


# The dashboard


def test_the_dashboard_offers_an_audit_of_all_calls(client: FlaskClient, called: Person) -> None:
    page = client.get("/dashboard", headers=called.headers)
    assert "Audit all calls" in words(page)


def test_the_dashboard_shows_the_latest_audit_of_the_account(
    client: FlaskClient, called: Person, sessions: Sessions
) -> None:
    add_run(sessions, called.account_id, source="upload")
    audit_id = add_run(
        sessions,
        called.account_id,
        source="account",
        window_days=30,
        records=3,
        total_spend_usd=Decimal("12.34"),
        projected_spend_usd=Decimal("37.02"),
        verified_savings_usd=Decimal(2),
        estimated_savings_usd=Decimal(3),
        projection="good",
    )
    page = client.get("/dashboard", headers=called.headers)
    text = words(page)
    for expected in (
        "From 3 calls of the last 30 days, audited",
        f"Spent in {utc_now():%b %Y} $12.34",
        "You could save $5.00",
        "$2.00 verified",
        "Spend by day $12.34 in 30 days",
    ):
        assert expected in text
    assert f'href="/audits/{audit_id}"' in page.text
    with sessions() as session:
        session.execute(update(Audit).where(Audit.id == audit_id).values(status="queued"))
        session.commit()
    assert "Follow the audit" in words(client.get("/dashboard", headers=called.headers))


@pytest.mark.usefixtures("imported_at_once")
def test_the_spans_of_the_person_are_imported_and_no_others(
    client: FlaskClient, sessions: Sessions, db_session: Session
) -> None:
    person, other = add_person(sessions), add_person(sessions)
    with sessions() as session:
        for account_id in (person.account_id, other.account_id):
            texts = {"lines": b"x", "keys": b"", "links": b""}
            session.add(SpanBatch(account_id=account_id, calls=2, size=1, **texts))
            # An import of the last hour.
            texts = {"lines": b"", "keys": b"k", "links": b""}
            session.add(SpanBatch(account_id=account_id, calls=0, size=1, **texts))
        session.commit()
    assert list_accounts_due(db_session.connection(), 9) == []
    response = client.post("/api/v1/span-imports", headers=person.headers)
    assert (response.status_code, response.json) == (202, {"calls": 2})
    assert list_accounts_due(db_session.connection(), 9) == [person.account_id]


def test_without_spans_nothing_is_requested(
    client: FlaskClient, sessions: Sessions, db_session: Session
) -> None:
    response = client.post("/api/v1/span-imports", headers=add_person(sessions).headers)
    assert (response.status_code, response.json) == (202, {"calls": 0})
    assert db_session.scalars(select(SpanBatch)).all() == []
