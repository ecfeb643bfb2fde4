"""/audits/<audit_id>: the progress of an audit and its owner's report, visible to nobody else."""

import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO, StringIO
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

import detectors
from detectors.contract import DataQuality, Report
from service.core.tokens import sign_report
from service.models import Audit
from service.models.base import utc_now
from tests.cases import each_case
from tests.lazily import pypdf
from tests.service.support.documents import make_report
from tests.service.support.scenes import SECRET_KEY, Sessions, record
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

REQUEST_ID = {"X-Request-Id": "5a" * 16}


def show(client: FlaskClient, person: Person, audit_id: str, query: str = "") -> TestResponse:
    response = client.get(f"/audits/{audit_id}{query}", headers={**person.headers, **REQUEST_ID})
    assert response.headers["Cache-Control"] == "no-store"
    return response


def progress(client: FlaskClient, person: Person, audit_id: str) -> TestResponse:
    return client.get(f"/audits/{audit_id}/progress", headers={**person.headers, **REQUEST_ID})


# How far it is


@each_case(
    ("fields", "expected"),
    [
        ({"status": "queued"}, "Your audit is next in the queue."),
        ({"status": "processing"}, "Reading and validating records."),
        (
            {"status": "processing", "valid_pct": 99.5},
            "99.5% of rows are valid. Running the detectors.",
        ),
        ({"status": "failed", "error": "Under half could be read."}, "Under half could be read."),
    ],
)
def test_it_shows_the_progress_of_the_audit(
    client: FlaskClient, person: Person, sessions: Sessions, fields: dict[str, Any], expected: str
) -> None:
    audit_id = add_run(sessions, person.account_id, **fields)
    assert expected in words(show(client, person, audit_id))
    assert expected in words(progress(client, person, audit_id))


def test_the_audit_of_all_calls_says_how_much_is_done(
    client: FlaskClient, app: Flask, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id, source="account", status="processing")
    assert "Collecting your calls." in words(progress(client, person, audit_id))
    for done, expected in ((0, "Auditing your calls."), (3, "Auditing your calls: 37% done.")):
        app.extensions["queues"].show_progress(audit_id, done, 8)
        assert expected in words(progress(client, person, audit_id))


@each_case("status", ["queued", "processing"])
def test_the_audit_of_all_calls_can_be_canceled(
    client: FlaskClient, person: Person, sessions: Sessions, status: str
) -> None:
    upload = add_run(sessions, person.account_id, status=status)
    assert "Cancel this audit" not in words(show(client, person, upload))
    audit_id = add_run(
        sessions, person.account_id, source="account", status=status, lease_token="held"
    )
    form = load_form(client, f"/audits/{audit_id}", "cancel", person.headers)
    sent = {"headers": form.headers, "data": {"csrf_token": form.token}}
    for _ in range(2):
        answer = client.post(form.action, **sent)
        assert (answer.status_code, answer.location) == (303, f"/audits/{audit_id}")
        client.post(form.action.replace(audit_id, upload), **sent)
    text = words(show(client, person, audit_id)).partition("Sign out")[2]
    assert "This audit was canceled You canceled this audit." in text
    assert "credit" not in text
    with sessions() as session:
        ended, other = session.get_one(Audit, audit_id), session.get_one(Audit, upload)
        assert (ended.status, ended.lease_token, other.status) == ("failed", None, status)


def test_it_shows_the_number_of_audits_ahead(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    now = utc_now() - timedelta(days=4000)  # before whatever else waits in the database
    for ahead, expected in enumerate(
        ("next in the queue", "1 audit is ahead of yours", "2 audits are ahead of yours")
    ):
        at = now + timedelta(seconds=ahead)
        audit_id = add_run(sessions, person.account_id, status="queued", created_at=at)
        assert expected in words(show(client, person, audit_id))


def test_an_audit_that_an_outage_interrupted_says_so(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    later = utc_now() + timedelta(minutes=1)
    paused: dict[str, Any] = {"status": "queued", "outages": 3, "resume_at": later}
    first = add_run(
        sessions, person.account_id, created_at=utc_now() - timedelta(days=4001), **paused
    )
    audit_id = add_run(sessions, person.account_id, **paused)
    text = words(show(client, person, audit_id))
    assert "An outage on our side interrupted this audit. It continues automatically." in text
    assert "next in the queue" not in text
    assert "next in the queue" in words(show(client, person, first))


def test_a_running_audit_is_asked_for_again_with_scripts_and_without(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id, status="processing", records=50)
    page = show(client, person, audit_id).get_data(as_text=True)
    assert "50 <small>(a call that was logged more than once is counted once" in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert f'data-hx-get="/audits/{audit_id}/progress"' in page
    assert "HX-Refresh" not in progress(client, person, audit_id).headers


@each_case("status", ["done", "failed"])
def test_a_finished_audit_reloads_the_page_once(
    client: FlaskClient, person: Person, sessions: Sessions, status: str
) -> None:
    audit_id = add_run(sessions, person.account_id, make_report(), status=status)
    assert progress(client, person, audit_id).headers["HX-Refresh"] == "true"
    page = show(client, person, audit_id).get_data(as_text=True)
    assert "refresh" not in page
    assert "data-hx-get" not in page


@each_case(
    ("source", "expected"),
    [("upload", "We returned the credit to your account"), ("ingest", "use credits")],
)
def test_a_failed_audit_mentions_its_credit(
    client: FlaskClient, person: Person, sessions: Sessions, source: str, expected: str
) -> None:
    audit_id = add_run(sessions, person.account_id, status="failed", source=source)
    page = words(show(client, person, audit_id))
    assert "This audit failed" in page
    assert expected in page


def test_a_reason_is_shown_as_text(client: FlaskClient, person: Person, sessions: Sessions) -> None:
    reason = "<script>alert(1)</script>"
    audit_id = add_run(sessions, person.account_id, status="failed", error=reason)
    assert reason not in show(client, person, audit_id).get_data(as_text=True)


# The report


def test_its_owner_reads_shares_and_downloads_the_report(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id, make_report())
    response = show(client, person, audit_id)
    assert "You spend about $2,645/month" in words(response)
    assert "Share this report" in words(response)
    shared = client.get(f"/r/{sign_report(SECRET_KEY, audit_id)}")
    assert shared.status_code == 200
    assert "You spend about $2,645/month" in words(shared)
    assert "Share this report" not in words(shared)
    # Its owner can download it.
    page = show(client, person, audit_id).get_data(as_text=True)
    addresses = set(re.findall(r'href="(/audits/\w+/(?:pdf|json|findings\.csv))"', page))
    assert len(addresses) == 3
    statuses = {client.get(one, headers=person.headers).status_code for one in addresses}
    assert statuses == {200}
    assert {client.get(one).status_code for one in addresses} == {303}
    # Its owner sees one finding.
    assert "support-bot" in words(show(client, person, audit_id, "?finding=d1-001"))
    assert show(client, person, audit_id, "?finding=d1-999").status_code == 404


def test_its_owner_is_led_to_calls_that_are_dated_in_the_future(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    for calls in (0, 3):
        quality = DataQuality(future_calls=calls) if calls else DataQuality()
        report = make_report(data_quality=quality)
        audit_id = add_run(sessions, person.account_id, report=report)
        page = show(client, person, audit_id).get_data(as_text=True)
        assert ("3 calls are dated more than a day in the future." in page) == bool(calls)
        assert ('<a href="/imports/future">' in page) == bool(calls)


# Nobody else


def test_the_page_of_a_deleted_report_says_so_and_shows_the_figures(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(
        sessions,
        person.account_id,
        source="ingest",
        records=1_200,
        total_spend_usd=Decimal("12.50"),
        findings_count=26,
        priced_findings=3,
        report_deleted_at=utc_now(),
    )
    text = words(show(client, person, audit_id))
    assert "This report was deleted after 30 days" in text
    assert "Records 1,200 Spend in the batch $12.50 Findings 3" in text
    for ending in ("/pdf", "/json", "/findings.csv"):
        assert client.get(f"/audits/{audit_id}{ending}", headers=person.headers).status_code == 404


# The same file again


@pytest.mark.parametrize("is_done", [False, True], ids=["in progress", "done"])
def test_a_file_uploaded_again_is_recognized(
    client: FlaskClient, person: Person, sessions: Sessions, is_done: bool
) -> None:
    day, report = datetime(2026, 10, 3, 9, tzinfo=UTC), make_report() if is_done else None
    status = "done" if is_done else "queued"
    file: dict[str, Any] = {"content_hash": b"of the file", "status": status}
    add_run(
        sessions, person.account_id, created_at=day - timedelta(1), **{**file, "status": "failed"}
    )
    earlier = day - timedelta(2)
    add_run(sessions, add_person(sessions).account_id, report, created_at=earlier, **file)
    first = add_run(sessions, person.account_id, report, created_at=day, **file)
    again = add_run(sessions, person.account_id, report, label="October <b>", **file)
    page = show(client, person, again)
    said = "You uploaded this file on Oct 3, 2026"
    assert said in words(page)
    assert "Nothing will be counted twice." in words(page)
    assert f'href="/audits/{first}"' in page.get_data(as_text=True)
    assert "October &lt;b&gt;" in page.get_data(as_text=True)
    assert "You uploaded this file" not in words(show(client, person, first))


# What a batch says


@each_case("source", ["ingest", "upload"])
def test_the_report_of_a_batch_projects_no_month_and_its_document_stays(
    client: FlaskClient, person: Person, sessions: Sessions, source: str
) -> None:
    calls = [record(ts=f"2026-03-01T{12 + number // 30}:{number % 30:02d}:00Z", tag="short",
                    model="gpt-4o", prompt_tokens=40_000) for number in range(60)]  # fmt: skip
    report = detectors.audit(calls)
    audit_id = add_run(sessions, person.account_id, report, source=source)
    page = words(show(client, person, audit_id))
    is_batch = source == "ingest"
    assert ("in this import" in page) == is_batch
    assert ("Too little data to project a month." in page) == is_batch
    assert ("/month" in page) != is_batch
    finding = words(show(client, person, audit_id, "?finding=d1-001"))
    assert ("to project to 30 days" in finding) != is_batch
    stored = client.get(f"/audits/{audit_id}/json", headers=person.headers).data
    assert Report.from_json(stored).audit.projection != "import"
    assert Report.from_json(stored) == Report.from_json(report.to_json())


def test_no_surface_of_a_batch_has_an_amount_that_its_calls_did_not_cost(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    # Eight bursts of five equal calls in 80 minutes, which cost $2.52.
    calls = [record(ts=f"2026-03-01T{12 + minute // 60}:{minute % 60:02d}:0{second}Z", tag="retry",
                    model="gpt-4o", prompt_tokens=25_000, completion_tokens=40)
             for minute in range(0, 88, 11) for second in range(5)]  # fmt: skip
    report = detectors.audit(calls)
    assert report.audit.projected_spend_usd > 500
    audit_id = add_run(sessions, person.account_id, report, source="ingest")
    table = client.get(f"/audits/{audit_id}/findings.csv", headers=person.headers).text
    pdf = client.get(f"/audits/{audit_id}/pdf", headers=person.headers).data
    pages = pypdf.PdfReader(BytesIO(pdf)).pages
    for text in (
        words(show(client, person, audit_id)),
        words(show(client, person, audit_id, f"?finding={report.findings[0].id}")),
        " ".join(page.extract_text() for page in pages),
    ):
        own = re.split(r"Prices List prices|How the detectors work", text)[0]
        own = re.sub(r"A million\s+tokens.*?\$[\d.]+ and \$[\d.]+\.", "", own, flags=re.DOTALL)
        amounts = re.findall(r"\$([\d,]+\.\d\d)", own)
        assert len(amounts) >= 2
        largest = max(Decimal(each.replace(",", "")) for each in amounts)
        assert largest <= Decimal("3.00"), own  # an axis ends at $3
        assert not re.search("high severity|per month|/month", own, re.IGNORECASE), own
    rows = list(csv.DictReader(StringIO(table)))
    assert rows[0]["severity"] == "low"
    assert all(Decimal(row["impact_high"] or 0) <= Decimal("2.52") for row in rows)
    assert "monthly_cost_impact_usd" not in rows[0]
