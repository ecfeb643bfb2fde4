"""The read API: pagination, filters, conditional requests, limits, one audit, a report."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.models import Audit, ReportRow
from service.models.audits.audits import STATUSES, Cursor
from service.models.base import utc_now
from service.reports.sample import get_sample_report
from service.web.schemas.cursors import find_cursor, make_cursor
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, Sessions, Tenant, add_tenant, error_of
from tests.service.web.pages.scenes import add_finding

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def audits(db_session: Session, tenant: Tenant) -> list[str]:
    """Twelve audits a minute apart, four of them of one instant, in turn of every status."""
    rows = [
        Audit(
            id=f"audit-{index:02}-{tenant.account_id}",
            account_id=tenant.account_id,
            source="ingest",
            blob_key="raw/x.jsonl",
            status=STATUSES[index % 4],
            created_at=START + timedelta(minutes=min(index, 8)),
        )
        for index in range(12)
    ]
    db_session.add_all(rows)
    db_session.commit()
    return [row.id for row in reversed(rows)]


def _pages(client: FlaskClient, tenant: Tenant, **query: Any) -> Iterator[list[dict[str, Any]]]:
    while True:
        answer = client.get(f"{AUDITS}?{urlencode(query)}", headers=tenant.reads)
        assert answer.status_code == 200, answer.get_data(as_text=True)
        document = answer.get_json()
        yield document["audits"]
        if "next_cursor" not in document:
            return
        query["cursor"] = document["next_cursor"]


@each_case("limit", [1, 3, 4, 5, 11, 12, 200])
def test_pages_together_are_the_whole_list_in_its_order(
    client: FlaskClient, tenant: Tenant, audits: list[str], limit: int
) -> None:
    pages = list(_pages(client, tenant, limit=limit))
    assert [one["id"] for page in pages for one in page] == audits
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1]


@pytest.mark.usefixtures("without_indexes")
def test_audits_of_one_instant_are_listed_by_their_ids(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    ids = [f"{letter}-{tenant.account_id}" for letter in "cfahbgde"]
    shared = {"account_id": tenant.account_id, "source": "ingest", "blob_key": "raw/x.jsonl"}
    for id_ in ids:
        db_session.add(Audit(id=id_, created_at=START, **shared))
        db_session.flush()
    db_session.commit()
    answer = client.get(AUDITS, headers=tenant.reads)
    assert [one["id"] for one in answer.get_json()["audits"]] == sorted(ids, reverse=True)


def test_what_is_added_meanwhile_moves_no_page(
    client: FlaskClient, tenant: Tenant, audits: list[str], db_session: Session
) -> None:
    pages = _pages(client, tenant, limit=5)
    seen = [one["id"] for one in next(pages)]
    db_session.add(Audit(account_id=tenant.account_id, source="upload", blob_key="raw/y"))
    db_session.commit()
    seen += [one["id"] for page in pages for one in page]
    assert seen == audits


@each_case("status", STATUSES)
def test_a_status_filters_also_over_pages(
    client: FlaskClient, tenant: Tenant, audits: list[str], status: str
) -> None:
    listed = [one for page in _pages(client, tenant, limit=2, status=status) for one in page]
    expected = [id_ for at, id_ in enumerate(audits) if STATUSES[(11 - at) % 4] == status]
    assert [one["id"] for one in listed] == expected
    assert {one["status"] for one in listed} == {status}


@each_case(
    ("since", "count"),
    [
        ("2026-03-01", 12),
        ("2026-03-02", 0),
        ("2026-03-01T12:08:00Z", 4),
        ("2026-03-01T12:08:00", 4),
        ("2026-03-01T14:08:00+02:00", 4),
        ("2026-03-01T12:08:00.000001Z", 0),
        ("0001-01-01T00:00:00Z", 12),
        ("9999-12-31T23:59:59Z", 0),
    ],
)
def test_since_begins_with_what_was_created_then(
    client: FlaskClient, tenant: Tenant, audits: list[str], since: str, count: int
) -> None:
    for query in (urlencode({"since": since}), f"since={since}"):  # a plus, encoded or not
        answer = client.get(f"{AUDITS}?{query}", headers=tenant.reads)
        assert len(answer.get_json()["audits"]) == count


@each_case(
    ("query", "message"),
    [
        ("status=running", "status must be one of"),
        ("status=", "status must be one of"),
        ("status=DONE", "status must be one of"),
        ("since=", "since must be a date or time"),
        ("since=yesterday", "since must be a date or time"),
        ("since=2026-13-01", "since must be a date or time"),
        ("since=0001-01-01T00:00:00%2B14:00", "since must be a date or time"),
        ("since=%00", "since must be a date or time"),
        ("cursor=", "cursor must be the next_cursor"),
        ("cursor=x", "cursor must be the next_cursor"),
        ("cursor=%00", "cursor must be the next_cursor"),
        ("cursor=%C3%BC", "cursor must be the next_cursor"),
        ("cursor=" + "A" * 400, "cursor must be the next_cursor"),
        ("cursor=OTk5OTk5OTk5OTk5OTk5OTk5LngK", "cursor must be the next_cursor"),
        ("cursor=MS4A", "cursor must be the next_cursor"),  # an id that is a NUL
    ],
)
def test_a_filter_that_means_nothing_is_rejected(
    client: FlaskClient, tenant: Tenant, query: str, message: str
) -> None:
    answer = client.get(f"{AUDITS}?{query}", headers=tenant.reads)
    assert error_of(answer, 422, "validation_error").startswith(message)


def test_a_cursor_is_the_place_that_it_was_made_of() -> None:
    for moment in (START, datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)):
        place = Cursor(moment, "a" * 32)
        assert find_cursor(make_cursor(place)) == place


def test_anothers_cursor_shows_nothing_of_theirs(
    client: FlaskClient, tenant: Tenant, audits: list[str], sessions: Sessions
) -> None:
    first = client.get(f"{AUDITS}?limit=2", headers=tenant.reads).get_json()
    other = add_tenant(sessions)
    query = urlencode({"cursor": first["next_cursor"]})
    assert client.get(f"{AUDITS}?{query}", headers=other.reads).get_json() == {"audits": []}


def _store(session: Session, tenant: Tenant) -> str:
    audit = Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x", status="done")
    session.add(audit)
    session.flush()
    session.add(ReportRow(audit_id=audit.id, document=get_sample_report()))
    session.commit()
    return audit.id


def test_one_audit_is_summed_up_as_in_the_list(
    client: FlaskClient, tenant: Tenant, audits: list[str]
) -> None:
    listed = client.get(AUDITS, headers=tenant.reads).get_json()["audits"]
    for summary in listed[:3]:
        answer = client.get(f"{AUDITS}/{summary['id']}", headers=tenant.reads)
        assert (answer.status_code, answer.get_json()) == (200, summary)


def test_the_report_is_the_document_byte_for_byte(
    client: FlaskClient, tenant: Tenant, db_session: Session, audits: list[str]
) -> None:
    answer = client.get(f"{AUDITS}/{_store(db_session, tenant)}/report", headers=tenant.reads)
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert answer.data == get_sample_report()
    assert Report.from_json(answer.data).findings
    # An audit without a report says so.
    answer = client.get(f"{AUDITS}/{audits[0]}/report", headers=tenant.reads)
    assert "isn't ready yet" in error_of(answer, 404, "not_found")


def test_an_audit_whose_report_was_deleted_says_so_and_keeps_its_shape(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    audit_id = _store(db_session, tenant)
    path = f"{AUDITS}/{audit_id}"
    before = client.get(path, headers=tenant.reads).get_json()
    db_session.delete(db_session.get_one(ReportRow, audit_id))
    db_session.get_one(Audit, audit_id).report_deleted_at = utc_now()
    db_session.commit()
    assert client.get(path, headers=tenant.reads).get_json() == before
    answer = client.get(f"{path}/findings", headers=tenant.reads)
    assert (answer.status_code, answer.get_json()) == (200, {"audit_id": audit_id, "findings": []})
    answer = client.get(f"{path}/report", headers=tenant.reads)
    assert "was deleted: reports of batches are kept for 30 days" in error_of(
        answer, 404, "not_found"
    )


def test_each_route_wants_its_scopes_before_it_looks(
    client: FlaskClient, sessions: Sessions
) -> None:
    """Which ones they are is in the table of the access matrix."""
    reads = add_tenant(sessions, scopes=("read:audits",)).reads
    for ending, status in (("", 422), ("/findings", 403), ("/report", 403)):
        assert client.get(f"{AUDITS}/%00{ending}", headers=reads).status_code == status


@each_case("ending", ["", "/findings", "/report", "?limit=3"])
def test_an_unchanged_response_is_not_sent_again(
    client: FlaskClient, tenant: Tenant, db_session: Session, ending: str
) -> None:
    audit_id = _store(db_session, tenant)
    path = f"{AUDITS}{ending}" if "?" in ending else f"{AUDITS}/{audit_id}{ending}"
    first = client.get(path, headers=tenant.reads)
    assert first.headers["Cache-Control"] == "private, no-cache"
    tag = first.headers["ETag"]
    for sent in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = client.get(path, headers={**tenant.reads, "If-None-Match": sent})
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == tag
    other = client.get(path, headers={**tenant.reads, "If-None-Match": '"other"'})
    assert (other.status_code, other.data) == (200, first.data)


def test_a_change_makes_another_tag(
    client: FlaskClient, tenant: Tenant, audits: list[str], db_session: Session
) -> None:
    tag = client.get(AUDITS, headers=tenant.reads).headers["ETag"]
    db_session.get_one(Audit, audits[0]).status = "done"
    db_session.commit()
    answer = client.get(AUDITS, headers={**tenant.reads, "If-None-Match": tag})
    assert answer.status_code == 200


def test_an_error_has_no_tag_and_is_kept_by_nobody(client: FlaskClient, tenant: Tenant) -> None:
    answer = client.get(f"{AUDITS}/x", headers=tenant.reads)
    assert "ETag" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("ending", ["?limit=200", "/{id}", "/{id}/findings", "/{id}/report"])
def test_a_read_costs_two_queries_at_most(
    client: FlaskClient,
    tenant: Tenant,
    sessions: Sessions,
    db_session: Session,
    statements: list[str],
    ending: str,
) -> None:
    audit_id = _store(db_session, tenant)
    for rank in range(1, 30):
        add_finding(sessions, audit_id, rank, 1)
    path = f"{AUDITS}{ending.format(id=audit_id)}"
    client.get(path, headers=tenant.reads)  # the first use of a token is written down
    statements.clear()
    assert client.get(path, headers=tenant.reads).status_code == 200
    assert len(statements) == 2, statements
