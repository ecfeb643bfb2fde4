"""/settings/connections: keys are tried, sealed and never shown; pulls are explained."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import String, select, text, type_coerce
from sqlalchemy.orm import Session

from service.connections.openai.stub import World, make_stub
from service.connections.stub import Stub, running
from service.models import (
    BillMonth,
    ConnectionPull,
    Mail,
    ProviderConnection,
    ReportedCost,
    SecurityEvent,
    SpendRow,
)
from service.models.base import new_id, utc_now
from service.models.connections.unsent import replace_unsent
from tests.cases import each_case
from tests.service.support.bills import unsent_on
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Sessions

PAGE, ADD = "/settings/connections", "/settings/connections/add"
KEY = "sk-admin-canary-51966"
OTHER_KEY = "sk-admin-canary-48879"


@pytest.fixture
def world() -> World:
    world = World(key=KEY, projects={"proj_1": "Search", "proj_2": "Chat"})
    day = utc_now() - timedelta(days=40)
    world.costs.append({"time": day, "line_item": "gpt-4o, input", "amount": "1.5"})
    return world


@pytest.fixture
def stub(world: World) -> Iterator[Stub]:
    with running(make_stub(world)) as stub:
        yield stub


@pytest.fixture
def app(make_app: Callable[..., Flask], stub: Stub) -> Flask:
    return make_app(connection_urls=f"openai={stub.url}/v1")


def _connect(browser: Browser, key: str = KEY, provider: str = "openai") -> str:
    answer = browser.post(ADD, ADD, provider=provider, key=key, label="Acme", names="on")
    return f"{answer.status_code} {answer.get_data(as_text=True)}"


def _row(session: Session) -> ProviderConnection:
    session.expire_all()
    return session.scalars(select(ProviderConnection)).one()


def test_without_a_connection_the_page_says_what_is_needed(ada: Browser) -> None:
    page = words_of(ada.get(PAGE))
    assert "No connections yet" in page
    assert "Connect OpenAI" in page
    assert "Connect Anthropic" in page


def test_a_key_is_tried_at_once_sealed_and_shown_nowhere(
    ada: Browser, db_session: Session, stub: Stub, caplog: pytest.LogCaptureFixture
) -> None:
    assert _connect(ada).startswith("303")
    seen = f"costs since {utc_now() - timedelta(days=40):%b %Y}"
    assert f"2 projects, {seen}" in words_of(ada.get(PAGE))
    assert all(path.startswith("/v1/organization/") for path, _query in stub.requests)
    row = _row(db_session)
    assert (row.provider, row.key, row.label) == ("openai", KEY, "Acme")
    # The key is sealed and shown nowhere.
    stored = db_session.scalar(select(type_coerce(ProviderConnection.__table__.c.key, String)))
    raw = db_session.scalar(text("SELECT key FROM provider_connections"))
    assert stored == raw
    assert str(raw).startswith("sealed:1:")
    for path in (PAGE, ADD, f"{PAGE}/{row.id}", "/settings/activity", "/settings"):
        assert "canary" not in ada.get(path)
    assert "canary" not in caplog.text
    assert "canary" not in repr(row.sight)
    # Connecting is on record and mailed.
    events = db_session.scalars(select(SecurityEvent)).all()
    assert [(each.kind, each.details) for each in events] == [
        ("connection_added", {"provider": "openai"})
    ]
    mails = db_session.scalars(select(Mail.parameters)).all()
    assert [mail["event"] for mail in mails] == ["connection_added"]
    assert "Provider connected" in words_of(ada.get("/settings/activity"))
    # Names of the provider are inert on the page.
    row.sight = {**row.sight, "organization": "<script>alert(1)</script>"}
    db_session.commit()
    assert "<script>alert" not in ada.get(PAGE)
    assert "<script>alert" not in ada.get(f"{PAGE}/{row.id}")


@each_case(
    ("key", "said"),
    [
        ("sk-proj-canary", "wrong kind of key"),
        ("sk-admin-canary-wrong", "no longer valid"),
        ("sk-admin- canary", "isn't a key"),
        ("", "isn't a key"),
        ("sk-admin-" + "x" * 500, "isn't a key"),
    ],
)
def test_a_key_that_does_not_work_is_refused_with_the_reason(
    ada: Browser, db_session: Session, key: str, said: str
) -> None:
    answer = _connect(ada, key)
    assert answer.startswith("422")
    assert said in words_of(answer) or said.capitalize() in words_of(answer)
    assert "canary" not in answer
    assert db_session.scalars(select(ProviderConnection)).all() == []


def test_a_key_without_the_right_is_refused(ada: Browser, world: World) -> None:
    world.forbidden = {"/organization/costs"}
    assert "may not read usage or costs" in words_of(_connect(ada))


def test_a_key_can_be_replaced(ada: Browser, db_session: Session, world: World) -> None:
    _connect(ada)
    connection = _row(db_session)
    connection.error, connection.failing_since = "revoked", utc_now()
    db_session.commit()
    page = f"{PAGE}/{connection.id}"
    assert "It was revoked or has expired. Make a new key" in words_of(ada.get(page))
    world.key = OTHER_KEY
    assert ada.post(page, f"{page}/key", key=KEY).status_code == 422
    assert ada.post(page, f"{page}/key", key=OTHER_KEY).status_code == 303
    row = _row(db_session)
    assert (row.key, row.error, row.failing_since) == (OTHER_KEY, None, None)


def test_an_organization_cannot_be_connected_twice(
    ada: Browser, db_session: Session, world: World
) -> None:
    _connect(ada)
    answer = words_of(_connect(ada))
    assert "This OpenAI organization is already connected as “Acme”." in answer, answer
    page = f"{PAGE}/{_row(db_session).id}"  # there is only one
    world.projects = {"proj_9": "Of another organization"}
    refused = ada.post(page, f"{page}/key", key=KEY)
    assert refused.status_code == 422
    assert "belongs to another OpenAI organization" in words_of(refused.get_data(as_text=True))


def test_months_are_locked_again_for_another_organization(
    ada: Browser, db_session: Session, world: World
) -> None:
    _connect(ada)
    account_id, first_id = _row(db_session).account_id, _row(db_session).id

    def lock() -> None:
        month = {"month": date(2026, 2, 1), "locked_at": utc_now(), "billed_usd": 1, "days": {}}
        db_session.add(BillMonth(account_id=account_id, provider="openai", **month))
        db_session.commit()

    lock()
    world.projects, world.key = {"proj_9": "Of another organization"}, OTHER_KEY
    assert _connect(ada, OTHER_KEY).startswith("303")
    assert db_session.scalars(select(BillMonth)).all() == []
    lock()
    replace_unsent(db_session.connection(), account_id, "openai", [unsent_on(utc_now().date())])
    db_session.commit()
    page = f"{PAGE}/{first_id}"
    ada.post(page, f"{page}/remove", data="delete")
    db_session.expire_all()
    assert db_session.scalars(select(BillMonth)).all() == []
    # The other organization's spend stays, and is compared again at once.
    assert len(db_session.scalars(select(SpendRow)).all()) == 1
    left = _row(db_session)
    assert left.filled_at is None
    assert left.next_pull_at is not None
    assert left.next_pull_at <= utc_now()


@pytest.mark.parametrize("choice", ["keep", "delete"])
def test_removing_forgets_the_key_and_what_was_pulled_only_if_wanted(
    ada: Browser, db_session: Session, choice: str
) -> None:
    _connect(ada)
    row = _row(db_session)
    pull = {"report": "costs", "first_at": utc_now(), "outcome": "done", "began_at": utc_now()}
    owner = {"account_id": row.account_id, "connection_id": row.id}
    db_session.add(ConnectionPull(**owner, **pull))
    db_session.commit()
    page = f"{PAGE}/{row.id}"
    assert ada.post(page, f"{page}/remove", data=choice).status_code == 303
    db_session.expire_all()
    left = db_session.scalars(select(ConnectionPull)).all()
    if choice == "keep":
        assert len(left) == 1
        assert (_row(db_session).key, _row(db_session).next_pull_at) == ("", None)
        assert "What was pulled is kept" in words_of(ada.get(PAGE))
    else:
        assert left == []
        assert db_session.scalars(select(ProviderConnection)).all() == []


def test_names_can_be_dropped(ada: Browser, db_session: Session) -> None:
    _connect(ada)
    row = _row(db_session)
    owner = {"account": row.account_id, "connection": row.id}
    db_session.execute(
        text(
            "INSERT INTO reported_names VALUES"
            " (:connection, 'project', 'proj_1', :account, 'Search', '')"
        ),
        owner,
    )
    cost: dict[str, Any] = {
        "account_id": row.account_id,
        "connection_id": row.id,
        "report": "costs",
    }
    cost |= {"bucket_at": utc_now(), "day": utc_now().date(), "project_id": "", "key_id": ""}
    cost |= {"model": "", "kind": "other_fee", "line_item": "Search for Ada"}
    db_session.add(ReportedCost(**cost, amount=1, currency="USD"))
    row.filled_at = utc_now()
    row.lease_token, row.lease_expires_at = "of a pull with names", utc_now()
    row.shows_people = True
    db_session.commit()
    page = f"{PAGE}/{row.id}"
    assert ada.post(page, f"{page}/names", names="on").status_code == 303
    assert _row(db_session).lease_token is None  # because people aren't named anymore
    _row(db_session).lease_token = "of a pull with names"
    db_session.commit()
    assert ada.post(page, f"{page}/names").status_code == 303
    assert _row(db_session).lease_token is None
    assert not _row(db_session).keeps_names
    assert db_session.scalar(text("SELECT count(*) FROM reported_names")) == 0
    assert db_session.scalar(select(ReportedCost.line_item)) == ""
    assert _row(db_session).filled_at is None  # so that routes get other names


def test_an_operator_can_turn_connections_off(
    make_app: Callable[..., Flask], sessions: Sessions, stub: Stub
) -> None:
    app = make_app(connections="off", connection_urls=f"openai={stub.url}/v1")
    browser = Browser(app, sessions, f"{new_id()}@example.org")
    assert "turned off in this installation" in words_of(browser.get(PAGE))
    answer = browser.act(PAGE, ADD, provider="openai", key=KEY)
    assert answer.status_code == 422
    assert stub.requests == []
