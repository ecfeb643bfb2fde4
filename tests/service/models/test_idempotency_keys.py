"""Idempotency keys are stored as hashes, also beside the previous release, which needs their text.

The statements of the previous release are written out here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.orm import Session

from service.core.db import downgrade, list_revisions, migrate
from service.models import Account, Audit
from service.models.audits.idempotency import find_replay, hash_old_keys
from tests.databases import as_owner, make_database
from tests.service.support.scenes import AUDITS, INGEST, Sessions, add_tenant, batch
from tests.service.support.uploads import MULTIPART, add_person, log_file, one_file

KEY = "ada@example.org ordered it"
OLD_INSERT = text(
    "INSERT INTO idempotency_keys (account_id, route, key, audit_id, created_at)"
    " VALUES (:account_id, 'ingest', :key, :audit_id, now()) ON CONFLICT DO NOTHING"
    " RETURNING audit_id"
)
OLD_FIND = text(
    "SELECT audit_id FROM idempotency_keys"
    " WHERE account_id = :account_id AND route = 'ingest' AND key = :key"
)
HASHED_FROM = (
    "CREATE OR REPLACE FUNCTION idempotency_keys_hashed_from() RETURNS timestamptz LANGUAGE sql"
    " STABLE AS $$ SELECT now() + interval '{}' $$"
)


def test_no_text_of_a_key_is_stored(app: Flask, sessions: Sessions, db_session: Session) -> None:
    tenant, person = add_tenant(sessions), add_person(sessions, 1)
    client, keyed = app.test_client(use_cookies=False), {"Idempotency-Key": KEY}
    for status in (201, 200):
        headers = {**tenant.writes, **keyed}
        assert client.post(INGEST, json=batch(1), headers=headers).status_code == status
        headers = {**person.headers, **keyed}
        form: dict[str, Any] = {"data": one_file(log_file(1)), "content_type": MULTIPART}
        assert client.post(AUDITS, headers=headers, **form).status_code == status
    rows = db_session.scalars(text("SELECT idempotency_keys::text FROM idempotency_keys")).all()
    assert len(rows) == 2
    assert not [row for row in rows if "ada@" in row or KEY.encode().hex() in row]


@pytest.fixture
def used(database_url: str) -> Iterator[Engine]:
    """A database that was in use before the migration: an account, its audits, a key of one."""
    owner = create_engine(as_owner(make_database(database_url)))
    url = owner.url.render_as_string(hide_password=False)
    known = list_revisions()
    with Session(owner) as session:
        session.add(Account(id="a", email="a@b.c"))
        session.flush()
        names = ("before", "beside", "after")
        session.add_all(
            Audit(id=name, account_id="a", source="ingest", blob_key=name) for name in names
        )
        session.commit()
    downgrade(url, known[known.index("0039") - 1])
    with owner.begin() as connection:
        assert old_insert(connection, "before") == "before"
    migrate(url)
    yield owner
    owner.dispose()


def old_insert(connection: Connection, name: str) -> str | None:
    row = {"account_id": "a", "key": f"key {name}", "audit_id": name}
    found: str | None = connection.scalar(OLD_INSERT, row)
    return found


def old_find(connection: Connection, name: str) -> str | None:
    found: str | None = connection.scalar(OLD_FIND, {"account_id": "a", "key": f"key {name}"})
    return found


def find(connection: Connection, name: str) -> str | None:
    found = find_replay(connection, "a", "ingest", f"key {name}")
    return None if found is None else found.audit_id


def texts(connection: Connection) -> list[str]:
    return sorted(connection.scalars(text("SELECT key FROM idempotency_keys")).all())


def test_both_releases_find_each_key_for_a_day_and_then_the_text_goes(used: Engine) -> None:
    with used.begin() as connection:
        assert old_insert(connection, "beside") == "beside"
        assert old_insert(connection, "beside") is None  # taken, as before
        for search in (find, old_find):
            found = [search(connection, name) for name in ("before", "beside", "after")]
            assert found == ["before", "beside", None]
        assert hash_old_keys(connection, 1_000) == 0
        assert texts(connection) == ["key before", "key beside"]
    with used.begin() as connection:  # a day later
        connection.execute(text(HASHED_FROM.format("0")))
        assert old_insert(connection, "after") == "after"
        assert old_insert(connection, "beside") is None
        assert [hash_old_keys(connection, 1) for _ in range(3)] == [1, 1, 0]
        assert {key[0] for key in texts(connection)} == {"§"}
        names = ("before", "beside", "after")
        assert [find(connection, name) for name in names] == list(names)
