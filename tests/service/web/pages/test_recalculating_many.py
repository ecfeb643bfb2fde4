"""Reports whose prices or assumptions have changed since are recalculated together."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from flask import Flask
from flask.testing import FlaskClient

import detectors
from detectors.contract import Report
from service.models import Audit, ReportRow
from service.models.audits.audit_settings import save_assumptions
from tests.service.support.scenes import Sessions, record
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

PATH = "/settings/recalculate"


@pytest.fixture(scope="module")
def report() -> Report:
    return msgspec.json.decode(detectors.audit([record()]).to_json(), type=Report)


def change_assumptions(sessions: Sessions, person: Person, seconds: float = 60) -> None:
    with sessions() as session:
        save_assumptions(session, person.account_id, {"d2_cache_seconds": seconds})
        session.commit()


def page(client: FlaskClient, person: Person, query: str = "") -> str:
    return words(client.get(f"{PATH}{query}", headers=person.headers))


def recalculate(client: FlaskClient, person: Person, audit_ids: list[str]) -> str:
    """Send the form with these audits; return where it leads to."""
    form = load_form(client, "/settings/assumptions", "assumptions", person.headers)
    data: dict[str, Any] = {"csrf_token": form.token, "audit_id": audit_ids}
    answer = client.post(PATH, headers=form.headers, data=data)
    assert answer.status_code == 303
    return answer.location


def statuses(sessions: Sessions, audit_ids: list[str]) -> list[str]:
    with sessions() as session:
        return [session.get_one(Audit, audit_id).status for audit_id in audit_ids]


def test_outdated_reports_are_counted_and_queued_once(
    client: FlaskClient, person: Person, sessions: Sessions, report: Report
) -> None:
    assert "You have no reports that can be recalculated." in page(client, person)
    damaged = add_run(sessions, person.account_id)
    with sessions() as session:
        session.add(ReportRow(audit_id=damaged, document=b"{"))
        session.commit()
    audit_ids = [add_run(sessions, person.account_id, report, attempts=1) for _ in range(3)]
    assert "All of your latest 4 reports use today's prices and assumptions." in page(
        client, person
    )
    change_assumptions(sessions, person)
    assert "3 of your latest 4 reports were computed with prices" in page(client, person)
    form = load_form(client, PATH, "recalculate-all", person.headers)
    sent = {"csrf_token": form.token, "audit_id": audit_ids[:2]}
    for queued in (2, 0):
        answer = client.post(form.action, headers=form.headers, data=sent)
        assert (answer.status_code, answer.location) == (303, f"{PATH}?queued={queued}")
    assert statuses(sessions, audit_ids) == ["queued", "queued", "done"]
    with sessions() as session:
        audit = session.get_one(Audit, audit_ids[0])
        assert (audit.attempts, audit.uncounted_attempts, audit.error) == (1, 1, None)
    assert "1 of your latest 2 reports was computed" in page(client, person)


def test_only_own_outdated_reports_with_records_are_queued(
    client: FlaskClient, person: Person, sessions: Sessions, report: Report
) -> None:
    other = add_person(sessions)
    change_assumptions(sessions, other)
    change_assumptions(sessions, person)
    thresholds = detectors.Thresholds(d2_cache_seconds=60)
    current = detectors.audit([record()], thresholds=thresholds)
    gone = {"raw_purged_at": "2026-01-01T00:00:00Z", "frame_key": None}
    untouched = [
        add_run(sessions, person.account_id, current),
        add_run(sessions, other.account_id, report),
        add_run(sessions, person.account_id, report, **gone),
        add_run(sessions, person.account_id, status="failed"),
        add_run(sessions, person.account_id, status="processing"),
    ]
    before = statuses(sessions, untouched)
    location = recalculate(client, person, [*untouched, "unknown", "\0", ""])
    assert location == f"{PATH}?queued=0"
    assert statuses(sessions, untouched) == before


def test_half_of_the_queue_is_left_to_new_calls(
    share_app: Callable[..., Flask], sessions: Sessions, report: Report
) -> None:
    client = share_app(queued_audits_free=6).test_client(use_cookies=False)
    person = add_person(sessions)
    add_run(sessions, person.account_id, status="queued")
    audit_ids = [add_run(sessions, person.account_id, report) for _ in range(4)]
    change_assumptions(sessions, person)
    shown = page(client, person)
    assert "Recalculate 2 reports" in shown
    assert "Your queue has room for 2 more audits." in shown
    assert recalculate(client, person, audit_ids) == f"{PATH}?queued=2"
    assert sorted(statuses(sessions, audit_ids)) == ["done", "done", "queued", "queued"]
    assert "Recalculate 2" not in page(client, person)
    assert recalculate(client, person, audit_ids) == f"{PATH}?queued=0"


def test_older_reports_are_on_further_pages(
    client: FlaskClient,
    person: Person,
    sessions: Sessions,
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.operations.outdated_reports.PAGE_SIZE", 2)
    for day in (1, 2, 3):
        add_run(sessions, person.account_id, report, created_at=f"2026-03-0{day}T00:00:00Z")
    change_assumptions(sessions, person)
    first = client.get(PATH, headers=person.headers).text
    after = first.partition("?after=")[2].partition('"')[0]
    assert "2 of your latest 2 reports" in words(client.get(PATH, headers=person.headers))
    last = page(client, person, f"?after={after}")
    assert "Your next report was" in last
    assert "Check older reports" not in last
    assert "2 of your" in page(client, person, "?after=%00")  # as from the beginning
