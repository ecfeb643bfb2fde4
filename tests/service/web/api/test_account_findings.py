"""The findings of an account: the list of the API, and the page that changes them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from service.models import Account, AccountFinding, FindingChange
from service.models.base import new_id, utc_now
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Tenant, error_of
from tests.service.support.uploads import add_person

Sessions = sessionmaker[Session]
PATH = "/api/v1/findings"
SEEN = datetime(2026, 10, 1, 12, tzinfo=UTC)
Add = Callable[..., str]


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def add(sessions: Sessions, tenant: Tenant) -> Add:
    """Add a finding; return its ID."""

    def add(usd: int, state: str = "open", **fields: Any) -> str:
        own = {
            "id": new_id(),
            "account_id": tenant.account_id,
            "identity": new_id().encode(),
            "detector": "d2_missed_caching",
            "kind": "uncached_prefix",
            "route": f"route-{usd}",
            "provider": "openai",
            "model": "gpt-4o",
            "audit_id": "a" * 32,
            "finding_id": "d2-001",
            "severity": "high",
            "confidence": "ESTIMATED",
            "fix": "Put the cached part first.",
            "calls": 10,
            "monthly_usd": Decimal(usd),
            "observed_usd": Decimal(usd),
            "first_seen": SEEN,
            "last_seen": SEEN,
            **fields,
        }
        with sessions() as session:
            session.add(AccountFinding(state=state, **own))
            session.commit()
        return str(own["id"])

    return add


@pytest.fixture
def owner(app: Flask, sessions: Sessions, tenant: Tenant) -> Browser:
    """The browser of the account's owner."""
    with sessions() as session:
        email = session.get_one(Account, tenant.account_id).email
    return Browser(app, sessions, email)


def listed(client: FlaskClient, tenant: Tenant, query: str = "") -> dict[str, Any]:
    response = client.get(f"{PATH}{query}", headers=tenant.reads)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def test_unresolved_findings_are_listed_most_savings_first(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    ids = [add(usd, state) for usd, state in ((3, "open"), (9, "returned"), (5, "acknowledged"))]
    add(99, "fixed")
    add(98, "dismissed", silent_until=SEEN)
    found = listed(client, tenant)["findings"]
    assert [each["id"] for each in found] == [ids[1], ids[2], ids[0]]
    assert found[0]["monthly_cost_impact_usd"] == 9.0
    assert found[0]["first_seen"] == "2026-10-01T12:00:00Z"
    assert "fixed_at" not in found[0]
    dismissed = listed(client, tenant, "?state=dismissed")["findings"]
    assert [each["silent_until"] for each in dismissed] == ["2026-10-01T12:00:00Z"]
    assert len(listed(client, tenant, "?state=all")["findings"]) == 5


def test_pages_follow_one_another_without_gaps(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    ids = {add(usd) for usd in (1, 2, 2, 2, 3)}
    found, query = list[str](), "?limit=2"
    while True:
        page = listed(client, tenant, query)
        found += [each["id"] for each in page["findings"]]
        if "next_cursor" not in page:
            break
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert len(found) == 5
    assert set(found) == ids


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?state=broken", "must be one of unresolved, open, acknowledged"),
        ("?cursor=x", "must be the next_cursor of an earlier response"),
        ("?cursor=WyJ4IiwieSJd", "must be the next_cursor of an earlier response"),
        ("?limit=0", "must be a whole number from 1 to 200"),
    ],
)
def test_bad_parameters_are_explained(
    query: str, expected: str, client: FlaskClient, tenant: Tenant
) -> None:
    response = client.get(f"{PATH}{query}", headers=tenant.reads)
    assert expected in error_of(response, 422, "validation_error")


# The page


def test_an_account_without_findings_sees_when_they_come(owner: Browser) -> None:
    assert "No findings yet" in words_of(owner.get("/findings"))


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("acknowledge", "acknowledged"),
        ("fix", "fixed"),
        ("dismiss", "dismissed"),
        ("dismiss_90", "dismissed"),
    ],
)
def test_selected_findings_change_and_say_who_changed_them(
    action: str,
    state: str,
    owner: Browser,
    add: Add,
    sessions: Sessions,
) -> None:
    chosen, other = [add(1), add(2)], add(3)
    page = owner.get("/findings")
    assert all(finding in page for finding in (*chosen, other))
    answer = owner.post(
        "/findings",
        "/findings",
        finding=chosen,
        action=action,
        reason="Known\nto us",
        state="all",
    )
    assert (answer.status_code, answer.location) == (303, "/findings?state=all&changed=2")
    with sessions() as session:
        rows = {row.id: row for row in session.scalars(select(AccountFinding))}
        changes = session.scalars(select(FindingChange)).all()
    assert [rows[each].state for each in (*chosen, other)] == [state, state, "open"]
    assert (rows[chosen[0]].fixed_at is not None) == (state == "fixed")
    silent = rows[chosen[0]].silent_until
    if action == "dismiss_90":
        assert silent is not None
        assert timedelta(days=89) < silent - utc_now() < timedelta(days=91)
    else:
        assert silent is None
    assert {(each.before, each.after, each.reason) for each in changes} == {
        ("open", state, "Known to us")
    }
    assert {each.changed_by for each in changes} == {owner.email}
    assert "We changed 2 findings." in words_of(owner.get("/findings?changed=2"))


def test_findings_of_another_account_stay_as_they_are(
    app: Flask, add: Add, sessions: Sessions
) -> None:
    finding = add(1)
    another = Browser(app, sessions, add_person(sessions).email)
    form = {"finding": finding, "action": "fix"}
    assert another.act("/settings", "/findings", **form).status_code == 303
    with sessions() as session:
        assert session.get_one(AccountFinding, finding).state == "open"
    assert finding not in another.get("/findings?state=all")


def test_an_unknown_action_is_refused(owner: Browser, add: Add) -> None:
    answer = owner.post("/findings", "/findings", finding=add(1), action="burn")
    assert answer.status_code == 422
