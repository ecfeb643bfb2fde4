"""/dashboard of an account without calls, and its list of imports."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from service.models import Account, Subscription
from service.models.audits.dashboard import PAGE_SIZE
from service.models.base import utc_now
from tests.service.support.scenes import INGEST, Tenant, batch, sign_in
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.scenes import add_finding, add_run, add_spending_run
from tests.service.web.pages.words import words

Sessions = sessionmaker[Session]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def show(client: FlaskClient, person: Person, query: str = "") -> TestResponse:
    response = client.get(f"/dashboard{query}", headers=person.headers)
    assert response.status_code == 200
    return response


def runs_of(response: TestResponse) -> list[str]:
    """Return the IDs of the listed audits, in order."""
    table = response.get_data(as_text=True).partition("Your audits, newest first")[2]
    return re.findall(r'<tr><td><a href="/audits/([0-9a-f]+)"', table)


def neighbour(response: TestResponse, relation: str) -> str | None:
    link = re.search(rf'<a href="([^"]+)#audits" rel="{relation}"', response.get_data(as_text=True))
    return link[1].replace("&amp;", "&") if link else None


# Empty


def test_a_new_user_sees_the_next_step(client: FlaskClient, person: Person) -> None:
    page = words(show(client, person))
    for expected in (
        "No audits yet",
        "curl -sS http://localhost:8000/api/v1/ingest",
        "import tallystick tallystick.init()",
        "SERVICE_DSN",
    ):
        assert expected in page


def test_the_command_that_a_new_user_copies_works_unchanged(
    client: FlaskClient, person: Person, tenant: Tenant
) -> None:
    body = re.search(r"-d '([^']+)'", words(show(client, person)))
    assert body is not None
    headers = {**tenant.writes, "Content-Type": "application/json"}
    assert client.post(INGEST, data=body[1], headers=headers).status_code == 201


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


def test_runs_come_newest_first_and_in_pages_that_miss_none(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    # Pairs share their time, so that the id has to decide.
    times = [NOON + timedelta(minutes=number // 2) for number in range(2 * PAGE_SIZE + 3)]
    added = [(at, add_run(sessions, person.account_id, created_at=at)) for at in times]
    expected = [audit_id for _, audit_id in sorted(added, reverse=True)]
    pages = [show(client, person)]
    while older := neighbour(pages[-1], "next"):
        pages.append(show(client, person, older))
    assert [one for page in pages for one in runs_of(page)] == expected
    assert [len(runs_of(page)) for page in pages] == [PAGE_SIZE, PAGE_SIZE, 3]
    back = [pages[-1]]
    while newer := neighbour(back[-1], "prev"):
        back.append(show(client, person, newer))
    assert [runs_of(page) for page in back] == [runs_of(page) for page in reversed(pages)]


def test_a_page_holds_what_stood_on_it_while_new_runs_come(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    for number in range(PAGE_SIZE + 1):
        add_run(sessions, person.account_id, created_at=NOON + timedelta(minutes=number))
    older = neighbour(show(client, person), "next")
    assert older is not None
    before = runs_of(show(client, person, older))
    add_run(sessions, person.account_id)
    assert runs_of(show(client, person, older)) == before


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("?status=done", {"done upload", "done ingest"}),
        ("?source=ingest", {"done ingest", "queued ingest"}),
        ("?status=queued&source=ingest", {"queued ingest"}),
        ("?status=failed", set()),
        ("?status=odd&source='", {"done upload", "done ingest", "queued ingest"}),
    ],
)
def test_runs_are_filtered_by_status_and_source(
    client: FlaskClient, person: Person, sessions: Sessions, query: str, kept: set[str]
) -> None:
    names = {}
    for name in ("done upload", "done ingest", "queued ingest"):
        status, source = name.split()
        audit_id = add_run(sessions, person.account_id, status=status, source=source)
        names[audit_id] = name
    assert {names[one] for one in runs_of(show(client, person, query))} == kept


def test_where_no_run_fits_it_says_so(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    add_run(sessions, person.account_id)
    page = words(show(client, person, "?status=failed"))
    assert "No audits match these filters." in page
    assert "No audits yet" not in page


def test_pages_keep_the_filter(client: FlaskClient, person: Person, sessions: Sessions) -> None:
    for number in range(2 * PAGE_SIZE + 2):
        source = "upload" if number % 2 else "ingest"
        at = NOON + timedelta(minutes=number)
        add_run(sessions, person.account_id, source=source, created_at=at)
    first = show(client, person, "?source=upload")
    older = neighbour(first, "next")
    assert older is not None
    assert older.startswith("?source=upload&before=")
    assert len(runs_of(show(client, person, older))) == 1


def test_a_failed_audit_shows_its_reason_and_no_dollars(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    add_run(sessions, person.account_id, status="failed", error="Under half could be read.")
    assert "Failed – Under half could be read." in words(show(client, person))


# Money


def test_an_audit_shows_its_spend_and_avoidable_spend(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    add_spending_run(sessions, person.account_id, NOON, spend=200, avoidable=50)
    assert "$200.00 $50.00 (25%)" in words(show(client, person))


def test_the_largest_findings_of_recent_audits_are_shown_once_each(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    for usd in (100, 300, 200):
        audit_id = add_run(sessions, person.account_id)
        add_finding(sessions, audit_id, 1, usd)
        add_finding(sessions, audit_id, 2, usd // 10, detector="d2_missed_caching")
        add_finding(sessions, audit_id, 3, 0, detector="d5_max_tokens_misfit")
    page = words(show(client, person))
    assert "Oversized model $300.00 /month" in page
    assert "in 3 audits" in page
    assert page.count("Oversized model") == 1
    assert "Missed prompt caching $30.00 /month" in page
    assert "max_tokens misfit" not in page


def test_a_finding_leads_to_its_evidence(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id)
    add_finding(sessions, audit_id, 1, 100)
    page = show(client, person).get_data(as_text=True)
    assert f'href="/audits/{audit_id}?finding=d1-001"' in page


def test_hostile_labels_are_shown_as_text(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id)
    add_finding(
        sessions, audit_id, 1, 100, route="<img src=x onerror=alert(1)>", model="\u202eevil"
    )
    page = show(client, person).get_data(as_text=True)
    assert "<img src=x" not in page
    assert "\u202e" not in page


def test_plan_and_credits_are_shown(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    assert "Free plan · 2 credits left" in words(show(client, person))
    with sessions() as session:
        team = Subscription(
            account_id=person.account_id, plan="team", status="active", provider="comp"
        )
        session.add(team)
        session.commit()
    assert "Team plan" in words(show(client, person))


# Nobody else


def test_it_reveals_nothing_about_others(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    other = add_person(sessions, credits=7)
    theirs = add_spending_run(sessions, other.account_id, utc_now(), spend=777, avoidable=70)
    add_finding(sessions, theirs, 1, 70)
    mine = add_run(sessions, person.account_id)
    for query in (
        "",
        f"?before={theirs}",
        f"?after={theirs}",
        "?before=%00'",
        f"?after={'x' * 99}",
    ):
        response = show(client, person, query)
        assert runs_of(response) == [mine]
        assert "777" not in words(response)
        assert "flagship" not in words(response)


def test_signed_out_visitors_go_to_sign_in_and_back(client: FlaskClient) -> None:
    response = client.get("/dashboard?status=done")
    assert response.status_code == 303
    assert response.headers["Location"] == "/sign-in?next=/dashboard?status%3Ddone"
