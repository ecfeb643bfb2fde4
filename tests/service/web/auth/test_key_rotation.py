"""Rotate ingest keys with an overlap; expire tokens; count their uses."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from flask import Flask
from sqlalchemy.orm import Session

from service.models import IngestKey, ReadToken
from service.web.auth.credential_usage import INTERVAL, write_remaining_usage
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, INGEST, Sessions, Tenant, batch, bearer
from tests.service.web.pages.test_applications import Browser

PAGE = "/developer"


@pytest.fixture
def developer(app: Flask, sessions: Sessions, tenant: Tenant) -> Browser:
    return Browser(app, sessions, tenant.account_id)


def _key(session: Session, tenant: Tenant) -> IngestKey:
    session.expire_all()
    return session.query(IngestKey).filter_by(account_id=tenant.account_id, expires_at=None).one()


def _sends(developer: Browser, key: str) -> bool:
    sent = developer.client.post(INGEST, json=batch(), headers=bearer(key))
    return sent.status_code == 201


def test_a_replaced_key_works_on_beside_the_new_one_for_as_long_as_was_chosen(
    developer: Browser, tenant: Tenant, db_session: Session
) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        path = f"{PAGE}/ingest-keys/{_key(db_session, tenant).id}/rotate"
        status, page = developer.send(path, PAGE, overlap_hours="24")
        assert status == 200
        [fresh] = set(re.findall(r"ik_[0-9A-Za-z]{38}", page))
        assert _sends(developer, tenant.key)
        assert _sends(developer, fresh)
        clock.shift(timedelta(hours=24) - timedelta(seconds=1))
        assert _sends(developer, tenant.key)
        clock.shift(1)
        assert not _sends(developer, tenant.key)
        assert _sends(developer, fresh)


def test_a_replaced_key_takes_no_place_and_cannot_be_replaced_again(
    developer: Browser, tenant: Tenant, db_session: Session
) -> None:
    former = _key(db_session, tenant).id
    for _ in range(4):
        developer.send(f"{PAGE}/ingest-keys", PAGE)
    assert "5 of 5 keys" in developer.load(PAGE)
    assert developer.send(f"{PAGE}/ingest-keys/{former}/rotate", PAGE, overlap_hours="1")[0] == 200
    assert "5 of 5 keys" in developer.load(PAGE)
    assert developer.send(f"{PAGE}/ingest-keys/{former}/rotate", PAGE, overlap_hours="1")[0] == 422


def test_only_so_many_replaced_keys_work_at_a_time(
    developer: Browser, tenant: Tenant, db_session: Session
) -> None:
    statuses = []
    for _ in range(6):
        path = f"{PAGE}/ingest-keys/{_key(db_session, tenant).id}/rotate"
        statuses.append(developer.send(path, PAGE, overlap_hours="168")[0])
    assert statuses == [200] * 5 + [422]


@each_case("hours", ["", "2", "-1", "1e9", "x"])
def test_another_overlap_is_rejected(
    developer: Browser, tenant: Tenant, db_session: Session, hours: str
) -> None:
    path = f"{PAGE}/ingest-keys/{_key(db_session, tenant).id}/rotate"
    assert developer.send(path, PAGE, overlap_hours=hours)[0] == 422


@pytest.mark.parametrize("days", ["30", "90", "365", ""])
def test_a_read_token_ends_when_it_was_said_to(
    developer: Browser, tenant: Tenant, days: str
) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        form = {"scope": "read:audits", "expires_in_days": days}
        _, page = developer.send(f"{PAGE}/read-tokens", PAGE, **form)
        [token] = set(re.findall(r"rt_[0-9A-Za-z]{38}", page))
        clock.shift(timedelta(days=int(days or 3_000)) - timedelta(seconds=1))
        assert developer.client.get(AUDITS, headers=bearer(token)).status_code == 200
        clock.shift(1)
        status = 401 if days else 200
        assert developer.client.get(AUDITS, headers=bearer(token)).status_code == status


@each_case("days", ["1", "0", "-30", "x"])
def test_another_end_is_rejected(developer: Browser, days: str) -> None:
    form = {"scope": "read:audits", "expires_in_days": days}
    assert developer.send(f"{PAGE}/read-tokens", PAGE, **form)[0] == 422


def test_uses_are_counted_and_written_every_five_minutes_and_at_the_end(
    app: Flask, tenant: Tenant, sessions: Sessions, db_session: Session
) -> None:
    def known() -> tuple[int, datetime | None]:
        db_session.expire_all()
        row = db_session.query(ReadToken).filter_by(account_id=tenant.account_id).one()
        return row.uses, row.last_used_at

    client = app.test_client()
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        start = datetime.now(UTC)
        for _ in range(3):
            assert client.get(AUDITS, headers=tenant.reads).status_code == 200
        assert known() == (1, start)
        clock.shift(INTERVAL + timedelta(seconds=1))
        later = datetime.now(UTC)
        client.get(AUDITS, headers=tenant.reads)
        assert known() == (4, later)
        client.get(AUDITS, headers=tenant.reads)
        write_remaining_usage(app)
        assert known() == (5, later)


def test_what_is_rejected_is_no_use(app: Flask, tenant: Tenant, db_session: Session) -> None:
    mistyped = tenant.token[:-1] + ("y" if tenant.token.endswith("x") else "x")
    app.test_client().get(AUDITS, headers=bearer(mistyped))
    write_remaining_usage(app)
    row = db_session.query(ReadToken).filter_by(account_id=tenant.account_id).one()
    assert (row.uses, row.last_used_at) == (0, None)
