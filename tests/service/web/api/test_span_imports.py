"""POST /api/v1/span-imports: a session asks for an import of the spans that wait."""

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from service.models import SpanBatch
from service.models.imports.span_batches import list_accounts_due
from tests.service.support.uploads import add_person

Sessions = sessionmaker[Session]
PATH = "/api/v1/span-imports"


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.mark.usefixtures("settled_at_once")
def test_the_spans_of_the_person_are_imported_and_no_others(
    client: FlaskClient, sessions: Sessions, db_session: Session
) -> None:
    person, other = add_person(sessions), add_person(sessions)
    with sessions() as session:
        for account_id in (person.account_id, other.account_id):
            texts = {"lines": b"x", "keys": b"", "links": b""}
            session.add(SpanBatch(account_id=account_id, calls=2, size=1, **texts))
            # An import of the last hour.
            texts = {"lines": b"", "keys": b"k", "links": b""}
            session.add(SpanBatch(account_id=account_id, calls=0, size=1, **texts))
        session.commit()
    assert list_accounts_due(db_session.connection(), 9) == []
    response = client.post(PATH, headers=person.headers)
    assert (response.status_code, response.json) == (202, {"calls": 2})
    assert list_accounts_due(db_session.connection(), 9) == [person.account_id]


def test_without_spans_nothing_is_requested(
    client: FlaskClient, sessions: Sessions, db_session: Session
) -> None:
    response = client.post(PATH, headers=add_person(sessions).headers)
    assert (response.status_code, response.json) == (202, {"calls": 0})
    assert db_session.scalars(select(SpanBatch)).all() == []
