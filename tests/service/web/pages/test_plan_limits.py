"""What agents report of their plans' windows: stored once, shown as the highest of each length."""

from typing import Any, Final

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from detectors.agents import ledger, sending
from service.models.calls import plan_limits
from service.models.calls.plan_limits import PlanLimit, store_limits
from service.web.schemas.plan_usage import MOST_LIMITS, MOST_MINUTES, MOST_PERCENT
from tests.cases import each_case
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Tenant

PATH: Final = "/api/v1/plan-limits"
RANGE: Final = "?from=2026-03-01&to=2026-03-31"
WEEK: Final = {
    "provider": "codex", "window_minutes": 10_080, "resets_at": "2026-03-09T08:00:00+00:00",
    "used_percent": 31.5, "environment": "laptop",
}  # fmt: skip


def send(client: FlaskClient, tenant: Tenant, *limits: dict[str, Any]) -> int:
    return client.post(PATH, json={"limits": list(limits)}, headers=tenant.writes).status_code


def peaks(client: FlaskClient, tenant: Tenant, days: str = RANGE) -> list[tuple[Any, ...]]:
    answer = client.get(f"/api/v1/plan-usage{days}", headers=tenant.reads).get_json()
    return [tuple(each.values()) for each in answer["limits"]]


def test_the_highest_share_of_each_window_stays(client: FlaskClient, tenant: Tenant) -> None:
    assert send(client, tenant, WEEK, {**WEEK, "used_percent": 38}) == 200
    assert send(client, tenant, {**WEEK, "used_percent": 12}) == 200  # late, from another file
    assert send(client, tenant, {**WEEK, "resets_at": "2026-03-16T08:00:00Z"}) == 200
    five_hours = {**WEEK, "window_minutes": 300, "environment": "", "used_percent": 99.5}
    assert send(client, tenant, five_hours) == 200
    assert peaks(client, tenant) == [
        ("codex", "", 300, 99.5, "2026-03-09T08:00:00Z", 1),
        ("codex", "laptop", 10_080, 38.0, "2026-03-09T08:00:00Z", 2),
    ]


@each_case(
    ("days", "is_shown"),
    [("02&to=2026-03-02", True), ("09&to=2026-03-09", True), ("10&to=2026-03-20", False)],
)
def test_windows_of_the_days_that_are_asked_for(
    client: FlaskClient, tenant: Tenant, days: str, is_shown: bool
) -> None:
    send(client, tenant, WEEK)
    assert bool(peaks(client, tenant, f"?from=2026-03-{days}")) is is_shown


@each_case(
    "change",
    [
        {"used_percent": -1},
        {"used_percent": "most"},
        {"window_minutes": 0},
        {"window_minutes": 300.5},
        {"resets_at": "2026-03-09T08:00:00"},
        {"resets_at": "1999-12-31T08:00:00Z"},
        {"provider": "Not a provider"},
        {"environment": "x" * 201},
        {"prompt": "a text"},
    ],
)
def test_what_is_no_limit_is_refused(
    client: FlaskClient, tenant: Tenant, db_session: Session, change: dict[str, Any]
) -> None:
    body = {"limits": [WEEK, {**WEEK, **change}]}
    answer = client.post(PATH, json=body, headers=tenant.writes)
    assert answer.status_code == 422
    assert answer.get_json()["error"]["message"].startswith(f"limits[1].{next(iter(change))} ")
    assert db_session.scalar(select(PlanLimit)) is None


@each_case("limits", ["none", {}, ["none"], [{**WEEK, "provider": ["codex"]}], [[WEEK]], None])
def test_what_is_no_list_of_limits_is_refused(
    client: FlaskClient, tenant: Tenant, limits: Any
) -> None:
    answer = client.post(PATH, json={"limits": limits}, headers=tenant.writes)
    assert (answer.status_code, "limits" in answer.text) == (422, True)


def test_a_ledger_keeps_what_the_service_takes() -> None:
    assert (ledger.MOST_MINUTES, ledger.MOST_PERCENT) == (MOST_MINUTES, MOST_PERCENT)
    assert sending.MOST_LIMITS == MOST_LIMITS


def test_only_as_many_as_a_request_may_have(client: FlaskClient, tenant: Tenant) -> None:
    assert send(client, tenant) == 422
    assert send(client, tenant, *([WEEK] * 21)) == 422


def test_as_many_as_a_request_may_have_with_the_longest_labels(
    client: FlaskClient, tenant: Tenant
) -> None:
    long = {**WEEK, "environment": "\U0001f4bb" * 200}
    limits = [{**long, "window_minutes": minutes} for minutes in range(1, 21)]
    assert send(client, tenant, *limits) == 200  # escaped, so three times as long as in UTF-8
    assert len(peaks(client, tenant)) == 20


def test_the_newest_windows_of_an_account_are_kept(
    tenant: Tenant, ada: Browser, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_limits, "MAX_LIMITS", 3)
    for account_id in (ada.account_id, tenant.account_id):
        for day in range(1, 6):
            row = {**WEEK, "resets_at": f"2026-03-0{day}T08:00:00Z"}
            store_limits(db_session, account_id, [row])
    kept = select(PlanLimit.account_id, PlanLimit.resets_at).order_by(PlanLimit.resets_at)
    days = [(row.account_id, row.resets_at.day) for row in db_session.execute(kept)]
    for account_id in (ada.account_id, tenant.account_id):
        assert [day for own, day in days if own == account_id] == [3, 4, 5]


def test_lengths_a_minute_short_are_those_of_full_hours(
    client: FlaskClient, tenant: Tenant
) -> None:
    for minutes in (10_079, 10_080, 299, 90):
        assert send(client, tenant, {**WEEK, "window_minutes": minutes}) == 200
    assert [(row[2], row[-1]) for row in peaks(client, tenant)] == [(90, 1), (300, 1), (10_080, 1)]


def test_the_page_says_how_full_the_fullest_week_was(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    limit = {**WEEK, "used_percent": 38.0, "window_minutes": 10_079}  # as Codex reports it
    store_limits(db_session, ada.account_id, [limit])
    db_session.commit()
    page = words_of(ada.get(f"/plan-usage{RANGE}"))
    assert "Week Codex laptop 38%" in page
    assert "Your week peaked at 38%." in page
    assert "Your week" not in words_of(eve.get(f"/plan-usage{RANGE}"))
