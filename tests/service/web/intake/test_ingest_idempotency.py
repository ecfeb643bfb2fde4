"""The Idempotency-Key of ingest: one audit per key and account."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from service.models import Audit
from tests.cases import each_case
from tests.service.support.scenes import INGEST, Sessions, Tenant, add_tenant, batch, error_of


def _post(client: FlaskClient, tenant: Tenant, key: str, count: int = 1) -> TestResponse:
    headers = {**tenant.writes, "Idempotency-Key": key}
    return client.post(INGEST, json=batch(count), headers=headers)


def test_a_known_key_is_answered_with_its_audit(
    client: FlaskClient, tenant: Tenant, db_session: Session, blobs: Path
) -> None:
    first, second = _post(client, tenant, "k"), _post(client, tenant, "k")
    assert (first.status_code, second.status_code) == (201, 200)
    audit_id = first.get_json()["audit_id"]
    assert second.get_json() == {"audit_id": audit_id, "replayed": True}
    mine = select(func.count()).where(Audit.account_id == tenant.account_id)
    assert db_session.scalar(mine) == 1
    assert len(list(blobs.rglob("*.jsonl"))) == 1


def test_the_key_alone_decides_a_replay_regardless_of_the_body(
    client: FlaskClient, tenant: Tenant
) -> None:
    audit_id = _post(client, tenant, "k").get_json()["audit_id"]
    for body, content_type, encoding in (
        (b"", "application/json", ""),
        (b"{", "application/json", ""),
        (b'{"records": []}', "application/json", ""),
        (b"x", "text/plain", ""),
        (b"x", "application/json", "gzip"),
        (b"x", "application/json", "br"),
    ):
        headers = {**tenant.writes, "Idempotency-Key": "k", "Content-Encoding": encoding}
        response = client.post(INGEST, data=body, headers=headers, content_type=content_type)
        assert response.status_code == 200
        assert response.get_json() == {"audit_id": audit_id, "replayed": True}


def test_two_tenants_with_one_key_have_an_audit_each(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    other = add_tenant(sessions)
    mine, theirs = _post(client, tenant, "same"), _post(client, other, "same")
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert mine.get_json()["audit_id"] != theirs.get_json()["audit_id"]
    assert _post(client, other, "same").get_json()["audit_id"] == theirs.get_json()["audit_id"]


@each_case("key", ["a", "x" * 255, "with space", "~!@#$%^&*()", "'; DROP TABLE--"])
def test_any_printable_ascii_is_a_key(client: FlaskClient, tenant: Tenant, key: str) -> None:
    assert [_post(client, tenant, key).status_code for _ in range(2)] == [201, 200]


@each_case("key", ["", "x" * 256, "caf\xe9", "tab\there", "\x7f", "\x01"])
def test_any_other_key_is_a_bad_request(client: FlaskClient, tenant: Tenant, key: str) -> None:
    message = error_of(_post(client, tenant, key), 400, "bad_request")
    assert "Idempotency-Key" in message
    assert "255" in message


def test_keys_differ_in_every_character(client: FlaskClient, tenant: Tenant) -> None:
    keys = ["k", "K", "kk", "k.", "k k"]
    assert [_post(client, tenant, key).status_code for key in keys] == [201] * 5


def test_a_key_is_remembered_as_long_as_its_audit(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    audit_id = _post(client, tenant, "k").get_json()["audit_id"]
    db_session.execute(delete(Audit).where(Audit.id == audit_id))
    db_session.commit()
    assert _post(client, tenant, "k").status_code == 201


def test_a_key_used_between_the_lookup_and_the_claim_is_a_replay(
    client: FlaskClient, tenant: Tenant, blobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _post(client, tenant, "k")
    # As if the first request had committed just after the second looked.
    monkeypatch.setattr("service.web.intake.gates.find_replay", lambda *_: None)
    second = _post(client, tenant, "k")
    assert second.status_code == 200
    assert second.get_json() == {"audit_id": first.get_json()["audit_id"], "replayed": True}
    assert len(list(blobs.rglob("*.jsonl"))) == 1
