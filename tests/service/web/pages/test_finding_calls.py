"""/audits/<audit_id>/calls/<finding_id>.csv: the calls behind a finding, for the owner only."""

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from service.models import Audit
from service.models.audits.blob_keys import calls_key
from service.models.base import utc_now
from tests.service.support.documents import make_report
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.scenes import add_finding, add_run
from tests.service.web.pages.words import words

Sessions = sessionmaker[Session]
TABLE = b"\xef\xbb\xbfrequest_id,saving_usd\r\n'=1+1,0.5\r\n"


@pytest.fixture
def audit_id(sessions: Sessions, person: Person) -> str:
    audit_id = add_run(sessions, person.account_id, status="done", report=make_report())
    with sessions() as session:
        session.get_one(Audit, audit_id).frame_key = _frame(audit_id)
        session.commit()
    add_finding(sessions, audit_id, rank=1, usd=8)
    return audit_id


def _frame(audit_id: str) -> str:
    return f"frames/{audit_id}-1.parquet"


def _get(client: FlaskClient, person: Person, audit_id: str, finding: str) -> TestResponse:
    return client.get(f"/audits/{audit_id}/calls/{finding}.csv", headers=person.headers)


def test_the_owner_downloads_the_calls(
    client: FlaskClient, person: Person, audit_id: str, app: Flask
) -> None:
    app.extensions["blobs"].put(calls_key(_frame(audit_id), "d1-001"), TABLE)
    with _get(client, person, audit_id, "d1-001") as response:
        assert (response.status_code, response.mimetype, response.data) == (200, "text/csv", TABLE)
        assert "tallystick-calls-d1-001.csv" in response.headers["Content-Disposition"]
        assert response.headers["Cache-Control"] == "no-store"


def test_the_page_waits_for_calls_that_a_worker_computes(
    client: FlaskClient, person: Person, audit_id: str
) -> None:
    response = _get(client, person, audit_id, "d1-001")
    assert (response.status_code, response.headers["Refresh"]) == (202, "2")
    assert "starts as soon as the file is ready" in words(response)


def test_calls_that_differ_from_the_report_are_explained(
    client: FlaskClient, person: Person, audit_id: str, app: Flask
) -> None:
    app.extensions["blobs"].put(calls_key(_frame(audit_id), "d1-001"), b"")
    response = _get(client, person, audit_id, "d1-001")
    assert response.status_code == 404
    assert "Recalculate the report" in words(response)


def test_deleted_records_are_explained_and_not_linked(
    client: FlaskClient, person: Person, audit_id: str, sessions: Sessions
) -> None:
    page = f"/audits/{audit_id}?finding=d1-001"
    link = f"/audits/{audit_id}/calls/d1-001.csv"
    assert link in client.get(page, headers=person.headers).text
    with sessions() as session:
        session.get_one(Audit, audit_id).raw_purged_at = utc_now()
        session.commit()
    assert link not in client.get(page, headers=person.headers).text
    response = _get(client, person, audit_id, "d1-001")
    assert response.status_code == 404
    assert "We deleted the records of this audit" in words(response)


def test_an_unknown_finding_and_the_audit_of_another_account_are_not_found(
    client: FlaskClient, person: Person, audit_id: str, sessions: Sessions
) -> None:
    assert _get(client, person, audit_id, "d9-001").status_code == 404
    assert _get(client, add_person(sessions), audit_id, "d1-001").status_code == 404
