"""POST /api/v1/ingest: every row of the specification's table, and the order of the checks.

Which records and bodies are accepted is tested in tests/detectors/formats/test_batches.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from detectors.contract import MAX_BATCH_BYTES
from service.core import tokens
from service.models import Audit, IngestKey, Subscription
from tests.cases import each_case
from tests.detectors.formats.stored import decode_records
from tests.service.support.scenes import (
    INGEST,
    INGEST_V2,
    Sessions,
    Tenant,
    add_tenant,
    batch,
    bearer,
    error_of,
    record,
)


def test_a_batch_is_accepted_as_a_queued_audit(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    response = client.post(INGEST, json=batch(3), headers=tenant.writes)
    assert response.status_code == 201
    document = response.get_json()
    assert document == {"audit_id": document["audit_id"], "records": 3, "replayed": False}
    audit = db_session.get_one(Audit, document["audit_id"])
    assert (audit.account_id, audit.source, audit.status, audit.records) == (
        tenant.account_id,
        "ingest",
        "queued",
        3,
    )


def test_what_is_stored_is_re_encoded_from_the_checked_records(
    client: FlaskClient, tenant: Tenant, db_session: Session, blobs: Path
) -> None:
    sent = record(ts="2026-03-01T14:00:00+02:00", tag=None, cached_tokens=0)
    response = client.post(INGEST, json={"records": [sent]}, headers=tenant.writes)
    audit = db_session.get_one(Audit, response.get_json()["audit_id"])
    stored = (blobs / audit.blob_key).read_bytes()
    assert b"null" not in stored
    [kept] = decode_records(stored)
    assert kept.ts.isoformat() == "2026-03-01T12:00:00+00:00"


def test_five_thousand_records_are_accepted_and_one_more_is_not(
    client: FlaskClient, tenant: Tenant
) -> None:
    assert client.post(INGEST, json=batch(5000), headers=tenant.writes).status_code == 201
    message = error_of(
        client.post(INGEST, json=batch(5001), headers=tenant.writes), 413, "payload_too_large"
    )
    assert "5,000" in message


@each_case(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer ik_short",
        "Bearer \xff\xfe",
        "ik_" + "a" * 38,
    ],
)
def test_anything_but_a_bearer_key_is_unauthorized(client: FlaskClient, authorization: str) -> None:
    headers = {"Authorization": authorization}
    error_of(client.post(INGEST, json=batch(), headers=headers), 401, "unauthorized")


def test_a_revoked_key_is_unauthorized_at_once(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201
    db_session.execute(delete(IngestKey).where(IngestKey.account_id == tenant.account_id))
    db_session.commit()
    error_of(client.post(INGEST, json=batch(), headers=tenant.writes), 401, "unauthorized")


def test_a_key_that_was_never_minted_is_unauthorized(client: FlaskClient) -> None:
    headers = bearer(tokens.mint(tokens.Kind.INGEST_KEY))
    response = client.post(INGEST, json=batch(), headers=headers)
    error_of(response, 401, "unauthorized")
    assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


def test_ingest_pauses_and_resumes_with_the_subscription(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    """In both versions, and a replay as well."""
    own = update(Subscription).where(Subscription.account_id == tenant.account_id)
    headers, statuses = {**tenant.writes, "Idempotency-Key": "once"}, []
    for status in ("active", "canceled", "active"):
        db_session.execute(own.values(status=status))
        db_session.commit()
        for path in (INGEST, INGEST_V2):
            statuses.append(client.post(path, json=batch(), headers=headers).status_code)
    assert statuses == [201, 200, 402, 402, 200, 200]


def test_a_rejected_batch_names_the_record_and_the_fields(
    client: FlaskClient, tenant: Tenant
) -> None:
    body = {"records": [record(), record(messages=[], prompt="x"), record(prompt_tokens=-1)]}
    message = error_of(
        client.post(INGEST, json=body, headers=tenant.writes), 422, "validation_error"
    )
    assert "record 1" in message
    assert "messages" in message
    assert "prompt" in message
    assert "Record 2" in message
    assert "prompt_tokens" in message
    assert "never accepted" in message


def test_a_rejected_batch_leaves_nothing_behind(
    client: FlaskClient, tenant: Tenant, db_session: Session, blobs: Path
) -> None:
    for body in ({"records": [record(), record(tag=5)]}, batch(5001)):
        client.post(INGEST, json=body, headers={**tenant.writes, "Idempotency-Key": "once"})
    mine = select(func.count()).where(Audit.account_id == tenant.account_id)
    assert db_session.scalar(mine) == 0
    assert list(blobs.rglob("*.jsonl")) == []
    # Nor was the key used up.
    headers = {**tenant.writes, "Idempotency-Key": "once"}
    assert client.post(INGEST, json=batch(), headers=headers).status_code == 201


class TestTheOrderOfTheGates:
    """Each request fails its check and every later check, and gets the error of the first."""

    BAD_BODY = b'{"records": ['

    @pytest.fixture
    def strict(self, share_app: Callable[..., Flask]) -> FlaskClient:
        return share_app(ingest_key_limit_per_minute=1).test_client()

    def _post(self, client: FlaskClient, headers: dict[str, str], size: str = "13") -> int:
        return client.post(
            INGEST,
            data=self.BAD_BODY,
            headers=headers,
            content_type="text/plain",
            environ_overrides={"CONTENT_LENGTH": size},
        ).status_code

    def test_first_the_key(self, strict: FlaskClient) -> None:
        assert self._post(strict, {}) == 401

    def test_then_the_limit(self, strict: FlaskClient, sessions: Sessions) -> None:
        lapsed = add_tenant(sessions, status=None)
        assert [self._post(strict, lapsed.writes) for _ in range(2)] == [402, 429]

    def test_then_the_subscription(self, strict: FlaskClient, sessions: Sessions) -> None:
        assert self._post(strict, add_tenant(sessions, status="canceled").writes) == 402

    def test_then_the_size(self, strict: FlaskClient, tenant: Tenant) -> None:
        headers = {**tenant.writes, "Idempotency-Key": ""}
        assert self._post(strict, headers, str(MAX_BATCH_BYTES + 1)) == 413

    def test_then_the_replay(self, client: FlaskClient, tenant: Tenant) -> None:
        headers = {**tenant.writes, "Idempotency-Key": "known"}
        assert client.post(INGEST, json=batch(), headers=headers).status_code == 201
        assert self._post(client, headers) == 200

    def test_then_the_syntax_before_the_count_before_the_contract(
        self, client: FlaskClient, tenant: Tenant
    ) -> None:
        many_bad = b'{"records": [' + b"1," * 5000 + b"1]"
        for body, status in ((many_bad, 400), (many_bad + b"}", 413), (b'{"records": [1]}', 422)):
            response = client.post(
                INGEST, data=body, headers=tenant.writes, content_type="application/json"
            )
            assert response.status_code == status
