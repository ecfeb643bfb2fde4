"""Limits hold for requests that arrive at once: code that counts and adds has a lock."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from threading import Barrier

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.config import Config
from service.core.db import make_engine, make_session_factory
from service.mail.report_ready import post_report_ready
from service.models import Account, Audit, Mail, NoticeTarget
from service.models.access.credentials import MAX_READ_TOKENS, TokenLimitError, add_read_token
from service.models.access.oauth import MAX_APPLICATIONS, ApplicationLimitError, add_application
from service.models.identity.accounts import EACH
from service.models.mail.report_mails import MAILS_A_DAY
from service.models.notices.deliveries import post_test
from service.models.notices.targets import MAX_TARGETS, NewTarget, TargetLimitError, add_target
from service.models.watching.budgets import MAX_BUDGETS, BudgetLimitError, save_budget
from service.web.auth.caps import count_recalculations_allowed
from tests.databases import make_database
from tests.service.support.applications import make_application
from tests.service.support.changing import by_plan, change_config
from tests.service.support.scaled_reports import make_scaled_report
from tests.service.support.scenes import INGEST, Sessions, add_tenant, batch
from tests.service.support.uploads import add_person

AT_ONCE = 20
LIMIT_ERRORS = (TokenLimitError, ApplicationLimitError, TargetLimitError, BudgetLimitError)


@pytest.fixture(scope="module")
def settings(database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Settings of a database that the tests of this file share."""
    return Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url=make_database(database_url),
        redis_url=redis_url,
        storage_url=f"file://{tmp_path_factory.mktemp('blobs')}",
        database_pool_size=AT_ONCE,
        magic_link_limit_per_minute=100_000,
    )


@pytest.fixture(scope="module")
def many_sessions(settings: Config) -> Iterator[Sessions]:
    """Sessions of as many connections as there are requests."""
    engine = make_engine(settings)
    yield make_session_factory(engine)
    engine.dispose()


@pytest.fixture
def make_many(
    settings: Config, many_sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Flask]:
    def make(**changed: object) -> Flask:
        return make_application(change_config(settings, monkeypatch, **changed), many_sessions)

    return make


def ask_at_once(app: Flask, ask: Callable[[FlaskClient, int], int]) -> Sequence[int]:
    """Return the statuses of requests that are sent at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [
            pool.submit(lambda number: ask(app.test_client(use_cookies=False), number), number)
            for number in range(AT_ONCE)
        ]
        return [each.result() for each in asked]


def test_a_recipient_gets_five_links_of_twenty_requests(
    make_many: Callable[..., Flask], many_sessions: Sessions
) -> None:
    app, victim = make_many(magic_link_limit_per_recipient=5), "victim@example.org"

    def ask(client: FlaskClient, number: int) -> int:
        address = {"REMOTE_ADDR": f"2001:db8:{number:x}::1"}
        body = {"email": victim}
        return client.post("/auth/magic-link", json=body, environ_base=address).status_code

    assert set(ask_at_once(app, ask)) == {200}
    with many_sessions() as session:
        mails = select(func.count()).where(Mail.recipient == victim)
        assert session.scalar(mails) == 5


def test_a_queue_has_room_for_three_of_twenty_batches(
    make_many: Callable[..., Flask], many_sessions: Sessions
) -> None:
    limits = {"queued_audits": by_plan(3, 3, 3)}
    app, tenant = make_many(**limits), add_tenant(many_sessions)

    def ask(client: FlaskClient, number: int) -> int:
        return client.post(INGEST, json=batch(1), headers=tenant.writes).status_code

    assert sorted(ask_at_once(app, ask)) == [201] * 3 + [429] * (AT_ONCE - 3)
    with many_sessions() as session:
        query = select(Audit.blob_key).where(Audit.account_id == tenant.account_id)
        kept = set(session.scalars(query))
    assert set(app.extensions["blobs"].list_old("raw", -60.0)) == kept


def test_of_twenty_batches_that_finish_at_once_five_are_mailed(many_sessions: Sessions) -> None:
    tenant, report = add_tenant(many_sessions), make_scaled_report(findings=1)
    with many_sessions() as session:
        session.get_one(Account, tenant.account_id).report_mails = EACH
        audits = [
            Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x")
            for _ in range(AT_ONCE)
        ]
        session.add_all(audits)
        session.commit()

    def publish(audit: Audit) -> None:
        with many_sessions() as session:
            post_report_ready(session.connection(), audit.id, report)
            session.commit()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(publish, audits))
    with many_sessions() as session:
        mails = select(func.count()).where(Mail.account_id == tenant.account_id)
        assert session.scalar(mails) == MAILS_A_DAY


def test_one_of_twenty_tests_of_a_target_is_sent(many_sessions: Sessions) -> None:
    tenant = add_tenant(many_sessions)
    with many_sessions() as session:
        target = add_target(session, tenant.account_id, NewTarget("slack", "https://x.test/a", []))
        session.commit()

    def send(_: int) -> int:
        with many_sessions() as session:
            sent = post_test(session, session.get_one(NoticeTarget, target.id), {})
            session.commit()
            return len(sent)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert sum(pool.map(send, range(AT_ONCE))) == 1


def test_recalculations_at_once_share_half_of_the_queue(
    make_many: Callable[..., Flask], many_sessions: Sessions
) -> None:
    limits = {"queued_audits": by_plan(4, 4, 4)}
    app, person, entered = make_many(**limits), add_person(many_sessions), Barrier(2)
    with many_sessions() as session:
        audits = [
            Audit(account_id=person.account_id, source="ingest", blob_key="raw/x", status="done")
            for _ in range(4)
        ]
        session.add_all(audits)
        session.commit()

    def queue(half: Sequence[Audit]) -> int:
        with app.test_request_context(), many_sessions() as session:
            entered.wait(60)
            allowed = count_recalculations_allowed(session, person.account_id)
            time.sleep(0.2)  # what the look for outdated reports takes
            ids = [audit.id for audit in half][:allowed]
            session.execute(update(Audit).where(Audit.id.in_(ids)).values(status="queued"))
            session.commit()
            return len(ids)

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(queue, (audits[:2], audits[2:]))) == 2


def test_storage_that_is_filled_within_a_minute_gets_a_402(
    make_many: Callable[..., Flask], many_sessions: Sessions
) -> None:
    limits = {"stored_bytes": by_plan(300, 300, 300)}
    app, tenant = make_many(**limits), add_tenant(many_sessions)
    client, answers = app.test_client(use_cookies=False), []
    for _ in range(8):
        answers.append(client.post(INGEST, json=batch(1), headers=tenant.writes).status_code)
    with many_sessions() as session:
        query = select(Audit.raw_bytes).where(Audit.account_id == tenant.account_id)
        size = session.scalars(query).first() or 0
    passed = -(-300 // size)
    assert answers == [201] * passed + [402] * (8 - passed)


def add_one(session: Session, owner: Account, what: str, number: int) -> None:
    if what == "read token":
        add_read_token(session, owner, ["read:audits"])
    elif what == "application":
        add_application(session, owner.id, name="x", redirect_uris=[])
    elif what == "target":
        add_target(session, owner.id, NewTarget("slack", "https://x.test/a", []))
    else:
        save_budget(session, owner.id, f"route-{number}", Decimal(1))


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("read token", MAX_READ_TOKENS),
        ("application", MAX_APPLICATIONS),
        ("target", MAX_TARGETS),
        ("budget", MAX_BUDGETS),
    ],
)
def test_an_account_gets_as_many_as_it_may_have(
    many_sessions: Sessions, what: str, most: int
) -> None:
    account_id = add_person(many_sessions).account_id

    def try_to_add(number: int) -> bool:
        with many_sessions() as session, suppress(*LIMIT_ERRORS):
            add_one(session, session.get_one(Account, account_id), what, number)
            session.commit()
            return True
        return False

    with ThreadPoolExecutor(AT_ONCE) as pool:
        added = sum(pool.map(try_to_add, range(most + AT_ONCE)))
    assert added == most
