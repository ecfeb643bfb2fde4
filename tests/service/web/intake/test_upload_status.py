"""GET /api/v1/audits/<audit_id>/status: exactly the keys that each status has."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service.models import Audit
from service.models.audits.queue_order import count_ahead
from service.models.identity.accounts import find_account
from tests.service.support.scenes import AUDITS, Sessions, add_account, sign_in

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A client that leaves the cookies to the tests."""
    return app.test_client(use_cookies=False)


@pytest.fixture
def headers(sessions: Sessions) -> dict[str, str]:
    return sign_in(sessions, "reader@example.org")


def _add_audit(sessions: Sessions, minutes: int = 0, email: str = "", **fields: Any) -> str:
    """An audit of the reader or of another, so many minutes after the start."""
    with sessions() as session:
        account = find_account(session, email or "reader@example.org")
        if account is None:
            account = add_account(session, email=email)
        audit = Audit(
            id=uuid4().hex,
            account_id=account.id,
            blob_key="raw/x.jsonl",
            created_at=START + timedelta(minutes=minutes),
            **{"source": "upload", **fields},
        )
        session.add(audit)
        session.commit()
        return audit.id


def _status(client: FlaskClient, headers: dict[str, str], audit_id: str) -> dict[str, Any]:
    response = client.get(f"{AUDITS}/{audit_id}/status", headers=headers)
    assert response.status_code == 200
    document = response.get_json()
    assert document.pop("audit_id") == audit_id
    status: dict[str, Any] = document
    return status


def test_an_audit_shows_what_is_known_at_its_status(
    client: FlaskClient, sessions: Sessions, headers: dict[str, str]
) -> None:
    audit_id = _add_audit(sessions, valid_pct=90.0, error="of a requeued attempt")
    assert _status(client, headers, audit_id) == {"status": "queued", "queue_position": 0}
    # A running audit shows its share of valid rows once known.
    before = _add_audit(sessions, status="processing")
    assert _status(client, headers, before) == {"status": "processing"}
    after = _add_audit(sessions, status="processing", valid_pct=0.0)
    assert _status(client, headers, after) == {"status": "processing", "valid_pct": 0.0}
    # A finished audit keeps its share of valid rows.
    audit_id = _add_audit(sessions, status="done", valid_pct=99.5)
    assert _status(client, headers, audit_id) == {"status": "done", "valid_pct": 99.5}
    # A failed audit says why.
    validated = _add_audit(sessions, status="failed", valid_pct=20.0, error="too few")
    expected = {"status": "failed", "valid_pct": 20.0, "error": "too few"}
    assert _status(client, headers, validated) == expected
    crashed = _add_audit(sessions, status="failed", error="gave up")
    assert _status(client, headers, crashed) == {"status": "failed", "error": "gave up"}


def test_the_position_counts_the_audits_that_workers_serve_first_in_both_queues(
    client: FlaskClient, sessions: Sessions, headers: dict[str, str]
) -> None:
    for minutes, fields in (
        (0, {"status": "processing"}),
        (1, {"status": "done"}),
        (2, {"status": "failed"}),
        (3, {"source": "ingest"}),
    ):
        _add_audit(sessions, minutes, **fields)
    others = [_add_audit(sessions, 4 + number, email="other@example.org") for number in range(3)]
    audit_id = _add_audit(sessions, 8)
    behind = _add_audit(sessions, 9)
    ingested = _add_audit(sessions, 10, source="ingest")
    positions = {one: _status(client, headers, one)["queue_position"] for one in (audit_id, behind)}
    # Accounts take turns: one of the others first, then this one; another one, then the next.
    # Between them, workers serve the two batches: the first of a queue before the seconds.
    assert positions == {audit_id: 1 + 1, behind: 3 + 2}
    with sessions() as session:
        assert count_ahead(session, session.get_one(Audit, others[-1])) == 4 + 2
    assert _status(client, headers, ingested)["queue_position"] == 1 + 2


def test_audits_of_one_instant_have_positions_of_their_own(
    client: FlaskClient, sessions: Sessions, headers: dict[str, str]
) -> None:
    ids = [_add_audit(sessions) for _ in range(4)]
    positions = [_status(client, headers, one)["queue_position"] for one in ids]
    assert sorted(positions) == [0, 1, 2, 3]
