"""GET /api/v1/compare: two audits, or two periods."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from flask.testing import FlaskClient
from sqlalchemy import insert
from sqlalchemy.orm import Session

import detectors
from detectors import Report
from detectors.wording.figures import short_day
from service.models import Audit, FindingSaving, ReportRow
from tests.cases import each_case
from tests.detectors.reference.builders import answers
from tests.service.support.findings import add_account_finding
from tests.service.support.scenes import Sessions, Tenant, add_tenant
from tests.service.support.spend import FIRST, add_month, add_spend, spend_line, today

FEBRUARY, MARCH = date(2026, 2, 1), FIRST
MONTHS = {
    "before_from": "2026-02-01",
    "before_to": "2026-02-28",
    "from": "2026-03-01",
    "to": "2026-03-28",
}


def _get(client: FlaskClient, tenant: Tenant, status: int = 200, /, **query: Any) -> Any:
    response = client.get(f"/api/v1/compare?{urlencode(query)}", headers=tenant.reads)
    assert response.status_code == status, response.get_data(as_text=True)
    return response.get_json()


def _add_audit(session: Session, account_id: str, report: Report | None) -> str:
    audit = Audit(account_id=account_id, source="ingest", blob_key="raw/x.jsonl")
    audit.status = "queued" if report is None else "done"
    session.add(audit)
    session.flush()
    if report is not None:
        session.add(ReportRow(audit_id=audit.id, document=report.to_json()))
    session.commit()
    return audit.id


@pytest.fixture(scope="module")
def reports() -> tuple[Report, Report]:
    """A report on a route with one model, and one after its model was replaced."""
    before = [msgspec.structs.replace(call, tag="chat") for call in answers([50] * 40)]
    after = answers([50] * 40, model="gpt-4.1-nano")
    after = [msgspec.structs.replace(call, tag="chat") for call in after]
    return detectors.audit(before), detectors.audit(after)


def test_two_audits_are_compared_as_the_library_compares_their_reports(
    client: FlaskClient, tenant: Tenant, db_session: Session, reports: tuple[Report, Report]
) -> None:
    ids = [_add_audit(db_session, tenant.account_id, each) for each in reports]
    answer = _get(client, tenant, before=ids[0], after=ids[1])
    expected = reports[1].compare(reports[0])
    assert (answer["kind"], answer["is_per_day"]) == ("audits", False)
    assert answer["before"]["audit_id"] == ids[0]
    assert answer["after"]["calls"] == 40
    assert [(each["status"], each["route"], each["before_usd"]) for each in answer["findings"]] == [
        (change.status, change.finding.route, float(change.before_usd))
        for change in expected.changes
        if change.before_usd or change.after_usd
    ]
    assert {each["status"] for each in answer["findings"]} == {"fixed"}
    assert [(each["model"], each.get("change_pct")) for each in answer["models"]] == [
        (change.labels[1], change.change_pct if abs(change.change_usd) >= 1 else None)
        for change in expected.models
    ]
    assert [each["route"] for each in answer["routes"]] == ["chat"]


def test_two_months_are_compared_by_route_and_model_largest_change_first(
    client: FlaskClient, tenant: Tenant, db_session: Session, sessions: Sessions
) -> None:
    lines = [
        *(spend_line(FEBRUARY, "10"), spend_line(FEBRUARY, "50", route="search")),
        *(spend_line(MARCH, "15"), spend_line(MARCH, "30", route="search", model="small")),
        *(spend_line(MARCH, "2", route="new"), spend_line(date(2026, 4, 9), "99", route="later")),
    ]
    add_spend(db_session, tenant.account_id, *lines)
    add_spend(db_session, add_tenant(sessions).account_id, spend_line(MARCH, route="theirs"))
    answer = _get(client, tenant, **MONTHS)
    assert [
        (each["route"], each["change_usd"], each.get("change_pct")) for each in answer["routes"]
    ] == [("search", -20.0, -40.0), ("chat", 5.0, 50.0), ("new", 2.0, None)]
    assert [(each["model"], each["change_usd"]) for each in answer["models"]] == [
        ("gpt-5.5", -43.0),
        ("small", 30.0),
    ]
    assert answer["total"] == {
        "before_usd": 60.0,
        "after_usd": 47.0,
        "change_usd": -13.0,
        "change_pct": pytest.approx(-21.667, abs=0.001),
    }
    assert (answer["before"]["days"], answer["before"]["spend_usd"]) == (28, 60.0)


def test_periods_of_different_length_are_compared_per_day_and_say_so(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    weeks = [spend_line(FEBRUARY + timedelta(days=at), "1") for at in range(28)]
    weeks += [spend_line(MARCH + timedelta(days=at), "2") for at in range(7)]
    add_spend(db_session, tenant.account_id, *weeks)
    answer = _get(client, tenant, **{**MONTHS, "to": "2026-03-07"})
    assert answer["is_per_day"]
    [route] = answer["routes"]
    assert (route["before_usd"], route["after_usd"], route["change_pct"]) == (1.0, 2.0, 100.0)
    assert answer["notes"] == [
        "Changes are per day, because the first covers 28 days and the second 7 days."
    ]


def test_a_period_that_lacks_data_is_compared_with_nothing(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    first = today() - timedelta(days=34)
    lines = [spend_line(first + timedelta(days=at), "9") for at in range(35)]
    add_spend(db_session, tenant.account_id, *lines)
    answer = _get(client, tenant)
    assert answer["notes"][0] == f"No comparison: data starts {short_day(first)}."
    [route] = answer["routes"]
    assert (route["before_usd"], "change_pct" in route) == (45.0, False)
    assert "change_pct" not in answer["total"]


def test_without_parameters_the_last_30_days_are_compared_with_those_before(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    add_month(db_session, tenant.account_id, today(), days=60)
    answer = _get(client, tenant)
    assert answer["after"]["to"] == str(today())
    assert answer["before"]["to"] == str(today() - timedelta(days=30))
    assert answer["total"]["change_pct"] == 0.0
    assert answer["notes"] == ["Today is not over yet (UTC)."]


def test_findings_of_periods_are_new_fixed_gone_or_changed(
    client: FlaskClient, tenant: Tenant, db_session: Session, sessions: Sessions
) -> None:
    used = (spend_line(MARCH, route="fixed"), spend_line(MARCH), spend_line(FEBRUARY))
    add_spend(db_session, tenant.account_id, *used)
    other = add_tenant(sessions)
    days = {
        "fixed": {FEBRUARY: "9"},
        "gone": {FEBRUARY: "8"},
        "new": {MARCH: "7"},
        "worse": {FEBRUARY: "1", MARCH: "2"},
        "elsewhere": {date(2026, 5, 1): "100"},
        "theirs": {MARCH: "50"},
    }
    for route, amounts in days.items():
        owner = other if route == "theirs" else tenant
        finding = add_account_finding(db_session, owner.account_id, route=route)
        rows = [
            {"account_finding_id": finding.id, "day": day, "calls": 1, "saving_usd": Decimal(usd)}
            for day, usd in amounts.items()
        ]
        db_session.execute(insert(FindingSaving), rows)
    db_session.commit()
    answer = _get(client, tenant, **MONTHS)
    found = {each["route"]: (each["status"], each["before_usd"]) for each in answer["findings"]}
    assert found == {
        "fixed": ("fixed", 9.0),
        "new": ("new", 0.0),
        "worse": ("worse", 1.0),
        "gone": ("gone", 8.0),
    }
    assert answer["notes"] == []
    earlier = _get(client, tenant, **{**MONTHS, "before_from": "2026-01-31", "to": "2026-03-29"})
    assert earlier["notes"][-1].startswith("Findings are known by day since Feb 1, 2026")


def test_findings_take_their_own_scope(
    client: FlaskClient, db_session: Session, sessions: Sessions
) -> None:
    tenant = add_tenant(sessions, scopes=("read:audits",))
    assert "findings" not in _get(client, tenant)


def test_long_lists_are_cut_to_the_largest_changes(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    lines = [spend_line(MARCH, str(at), route=f"r{at}") for at in range(1, 6)]
    add_spend(db_session, tenant.account_id, *lines)
    answer = _get(client, tenant, **MONTHS, limit=2)
    assert [each["route"] for each in answer["routes"]] == ["r5", "r4"]


@each_case(
    ("query", "message"),
    [
        ({"before": "a"}, "after must name the other audit"),
        ({"after": "a"}, "before must name the other audit"),
        ({"before": "a", "after": "b", "to": "2026-03-01"}, "before must not be given with days"),
        ({"from": "2026-03-02", "to": "2026-03-01"}, "from must not be after its last day"),
        (
            {"before_from": "2024-01-01", "before_to": "2026-01-01"},
            "before_from must be less than 400 days",
        ),
        ({"from": "yesterday"}, "from must be a day"),
    ],
)
def test_impossible_pairs_are_refused(
    client: FlaskClient, tenant: Tenant, query: dict[str, str], message: str
) -> None:
    assert message in _get(client, tenant, 422, **query)["error"]["message"]


def test_audits_must_be_ones_own_done_and_two(
    client: FlaskClient,
    tenant: Tenant,
    db_session: Session,
    sessions: Sessions,
    reports: tuple[Report, Report],
) -> None:
    own = _add_audit(db_session, tenant.account_id, reports[0])
    queued = _add_audit(db_session, tenant.account_id, None)
    other = add_tenant(sessions)
    theirs = _add_audit(db_session, other.account_id, reports[1])
    for status, (before, after), message in (
        (404, (own, theirs), "not found"),
        (422, (queued, own), "no report yet"),
        (422, (own, own), "two different"),
    ):
        error = _get(client, tenant, status, before=before, after=after)["error"]
        assert message in error["message"]
