"""/audits/<audit_id>/calls/<finding_id>.csv: the calls behind a finding, for the owner only."""

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.models import Audit, FindingRow
from service.models.audits.blob_keys import calls_key
from service.models.base import utc_now
from tests.service.support.documents import make_report
from tests.service.support.scenes import Sessions
from tests.service.support.uploads import Person
from tests.service.web.pages.scenes import add_finding, add_run
from tests.service.web.pages.words import words

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


def test_the_calls_of_a_finding_are_downloaded_or_explained(
    client: FlaskClient, person: Person, audit_id: str, app: Flask, sessions: Sessions
) -> None:
    response = _get(client, person, audit_id, "d1-001")
    assert (response.status_code, response.headers["Refresh"]) == (202, "2")
    assert "starts as soon as the file is ready" in words(response)
    # The owner downloads the calls.
    app.extensions["blobs"].put(calls_key(_frame(audit_id), "d1-001"), TABLE)
    with _get(client, person, audit_id, "d1-001") as file:
        assert (file.status_code, file.mimetype, file.data) == (200, "text/csv", TABLE)
        assert "tallystick-calls-d1-001.csv" in file.headers["Content-Disposition"]
        assert file.headers["Cache-Control"] == "no-store"
    # Calls that differ from the report are explained.
    app.extensions["blobs"].put(calls_key(_frame(audit_id), "d1-001"), b"")
    response = _get(client, person, audit_id, "d1-001")
    assert response.status_code == 404
    assert "Recalculate the report" in words(response)
    # Deleted records are explained and not linked.
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
    assert _get(client, person, audit_id, "d9-001").status_code == 404


def test_the_owner_downloads_a_workbook_if_the_calls_fit(
    client: FlaskClient, person: Person, audit_id: str, app: Flask, sessions: Sessions
) -> None:
    path = f"/audits/{audit_id}/calls/d1-001.xlsx"
    assert client.get(path, headers=person.headers).status_code == 202
    app.extensions["blobs"].put(calls_key(_frame(audit_id), "d1-001", "xlsx"), b"a workbook")
    with client.get(path, headers=person.headers) as response:
        assert (response.status_code, response.data) == (200, b"a workbook")
        assert "tallystick-calls-d1-001.xlsx" in response.headers["Content-Disposition"]
    with sessions() as session:
        session.query(FindingRow).filter_by(audit_id=audit_id).update({"calls": 1_048_576})
        session.commit()
    refused = client.get(path, headers=person.headers)
    assert refused.status_code == 422
    assert "A spreadsheet has room for 1,048,575 rows. Download CSV." in words(refused)


def test_the_calls_of_an_audit_of_the_account_are_explained_where_they_cannot_be_listed(
    client: FlaskClient, person: Person, audit_id: str, app: Flask, sessions: Sessions
) -> None:
    with sessions() as session:
        audit = session.get_one(Audit, audit_id)
        audit.source, audit.frame_key, audit.window_days = "account", None, 30
        audit.raw_purged_at = utc_now()
        session.commit()
    link = f"/audits/{audit_id}/calls/d1-001.csv"
    assert link in client.get(f"/audits/{audit_id}?finding=d1-001", headers=person.headers).text
    assert client.get(link, headers=person.headers).status_code == 202
    app.extensions["blobs"].put(calls_key(f"frames/{audit_id}-0.parquet", "d1-001"), b"")
    answer = client.get(link, headers=person.headers)
    assert "your latest calls no longer have this finding" in words(answer)
