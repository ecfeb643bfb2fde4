"""/dashboard of an account without calls, and its list of imports."""

import re
from datetime import UTC, datetime, timedelta

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.models import Account, Subscription
from tests.cases import each_case
from tests.service.support.scenes import INGEST, Sessions, Tenant, batch, sign_in
from tests.service.support.uploads import Person
from tests.service.web.pages.scenes import add_finding, add_run, add_spending_run
from tests.service.web.pages.words import words

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def show(client: FlaskClient, person: Person, query: str = "") -> TestResponse:
    response = client.get(f"/dashboard{query}", headers=person.headers)
    assert response.status_code == 200
    return response


def runs_of(response: TestResponse) -> list[str]:
    """Return the IDs of the listed audits, in order."""
    table = response.get_data(as_text=True).partition("Your latest imports, newest first")[2]
    return re.findall(r'<tr><td><a href="/audits/([0-9a-f]+)"', table)


# Empty


def test_a_new_user_sees_the_next_step(client: FlaskClient, person: Person) -> None:
    page = words(show(client, person))
    for expected in (
        "Waiting for the first call…",
        "Create a key Needs Pro or Team.",
        "Choose a file 2 credits left",
        "Connect a provider No code changes Connect",
    ):
        assert expected in page


# The list


def test_a_batch_stands_there_the_moment_it_is_accepted(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    accepted = client.post(INGEST, json=batch(3), headers=tenant.writes).get_json()
    with sessions() as session:
        email = session.get_one(Account, tenant.account_id).email
    owner = Person(tenant.account_id, email, sign_in(sessions, email))
    response = show(client, owner)
    assert runs_of(response) == [accepted["audit_id"]]
    assert "API batch Queued 3" in words(response)


def test_the_five_newest_imports_are_shown(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    times = [NOON + timedelta(minutes=number) for number in range(7)]
    added = [add_run(sessions, person.account_id, created_at=at) for at in times]
    response = show(client, person)
    assert runs_of(response) == added[:1:-1]
    assert 'href="/imports"' in response.get_data(as_text=True)


@each_case(
    ("query", "address"),
    [
        ("?status=done", "/imports?status=done&source="),
        ("?source=ingest", "/imports?status=&source=ingest"),
        ("?status=queued&source=upload", "/imports?status=queued&source=upload"),
        ("?before=a", "/imports?status=&source="),
        ("?status=//evil.example", "/imports?status=&source="),
    ],
)
def test_links_to_the_list_of_earlier_releases_lead_to_imports(
    client: FlaskClient, person: Person, query: str, address: str
) -> None:
    response = client.get(f"/dashboard{query}", headers=person.headers)
    assert (response.status_code, response.headers["Location"]) == (303, address)


def test_imports_show_their_spend_or_why_they_failed(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    add_run(sessions, person.account_id, status="failed", error="Under half could be read.")
    assert "Failed – Under half could be read." in words(show(client, person))
    # An audit shows its spend and avoidable spend.
    add_spending_run(sessions, person.account_id, NOON, spend=200, avoidable=50)
    assert "$200.00 $100 /month (25%)" in words(show(client, person))


# Money


def test_the_largest_findings_of_recent_audits_are_shown_once_each(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    hostile = {"route": "<img src=x onerror=alert(1)>", "model": "\u202eevil"}
    add_finding(sessions, add_run(sessions, person.account_id), 1, 500, **hostile)
    for usd in (100, 200, 300):
        audit_id = add_run(sessions, person.account_id)
        add_finding(sessions, audit_id, 1, usd)
        add_finding(sessions, audit_id, 2, usd // 10, detector="d2_missed_caching")
        add_finding(sessions, audit_id, 3, 0, detector="d5_max_tokens_misfit")
    response = show(client, person)
    page = words(response)
    assert "Oversized model on support-bot $300 in one import" in page
    assert "in 3 audits" in page
    assert page.count("Oversized model") == 2
    assert "Missed prompt caching on support-bot $30 in one import" in page
    assert "max_tokens misfit" not in page
    assert f'href="/audits/{audit_id}?finding=d1-001"' in response.text
    assert "<img src=x" not in response.text
    assert "\u202e" not in response.text


def test_plan_and_credits_are_shown(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    assert "Free plan · 2 credits" in words(show(client, person))
    with sessions() as session:
        team = Subscription(
            account_id=person.account_id, plan="team", status="active", provider="comp"
        )
        session.add(team)
        session.commit()
    assert "Team plan" in words(show(client, person))
