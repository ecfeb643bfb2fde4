"""The transaction of ingest: how long it holds locks, and what a failure leaves behind."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from detectors.formats import decode_batch, encode_records
from service.app import create_app
from service.config import Config
from service.models import Audit
from tests.databases import as_owner
from tests.service.support.scenes import INGEST, Sessions, add_tenant, batch, error_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def test_a_slow_sender_holds_no_connection(own_database: Config, own_sessions: Sessions) -> None:
    tenant = add_tenant(own_sessions)
    app = create_app(replace(own_database, database_pool_size=1))
    pool = app.extensions["session_factory"].kw["bind"].pool
    held: list[int] = []

    class SlowBody(io.BytesIO):
        def readinto(self, buffer: "WriteableBuffer", /) -> int:
            held.append(pool.checkedout())
            return super().readinto(buffer)

    body = SlowBody(json.dumps(batch()).encode())
    response = app.test_client().post(
        INGEST, input_stream=body, headers=tenant.writes, content_type="application/json"
    )
    assert response.status_code == 201
    assert held
    assert set(held) == {0}


def test_no_connection_is_held_while_records_are_decoded_and_stored(
    own_database: Config, own_sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, app, held = add_tenant(own_sessions), create_app(own_database), list[int]()
    pool = app.extensions["session_factory"].kw["bind"].pool

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            held.append(pool.checkedout())
            return function(*arguments)

        return counted

    monkeypatch.setattr("service.web.http.bodies.decode_batch", counting(decode_batch))
    monkeypatch.setattr("service.web.intake.storing.encode_records", counting(encode_records))
    headers = {**tenant.writes, "Idempotency-Key": "k"}
    assert app.test_client().post(INGEST, json=batch(), headers=headers).status_code == 201
    assert held == [0, 0]


def test_an_audit_is_enqueued_once_and_after_its_commit(
    own_database: Config, own_sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, app, committed = add_tenant(own_sessions), create_app(own_database), list[str]()

    def enqueue(audit_id: str, _source: str) -> None:
        with own_sessions() as other:
            committed.append(other.get_one(Audit, audit_id).id)

    monkeypatch.setattr(app.extensions["queues"], "enqueue_audit", enqueue)
    response = app.test_client().post(INGEST, json=batch(), headers=tenant.writes)
    assert committed == [response.get_json()["audit_id"]]


def test_a_transaction_that_breaks_leaves_no_blob(
    own_database: Config, own_sessions: Sessions, blobs: Path
) -> None:
    tenant = add_tenant(own_sessions)
    app = create_app(own_database)
    blob_store = app.extensions["blobs"]
    put: Callable[[str, bytes], None] = blob_store.put

    def put_and_cut(key: str, data: bytes) -> None:
        put(key, data)
        assert blob_store.exists(key)
        engine = create_engine(as_owner(own_database.database_url))
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE audits RENAME TO gone"))
        engine.dispose()

    blob_store.put = put_and_cut
    response = app.test_client().post(INGEST, json=batch(), headers=tenant.writes)
    assert response.status_code == 500
    assert list(blobs.rglob("*.jsonl")) == []


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_answer_is_lost_keeps_the_blob_only_if_it_happened(
    own_database: Config,
    own_sessions: Sessions,
    blobs: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    tenant = add_tenant(own_sessions)
    client = create_app(own_database).test_client()
    commit = Connection.commit

    def commit_and_lose(connection: Connection) -> None:
        if is_committed:
            commit(connection)
        raise OperationalError("COMMIT", {}, Exception("server closed the connection"))

    monkeypatch.setattr(Connection, "commit", commit_and_lose)
    headers = {**tenant.writes, "Idempotency-Key": "k"}
    error_of(client.post(INGEST, json=batch(), headers=headers), 503, "unavailable")
    monkeypatch.undo()
    assert len(list(blobs.rglob("*.jsonl"))) == int(is_committed)
    retried = client.post(INGEST, json=batch(), headers=headers)
    assert retried.status_code == (200 if is_committed else 201)
