"""An upload from the browser's request to the report, through all processes of the service."""

from pathlib import Path
from typing import Any

import pytest
import requests

import detectors
from service.core.db import make_session_factory
from service.models.base import utc_now
from tests.detectors.reference import logs
from tests.detectors.reference.traffic import draw_log
from tests.service.support.scenes import AUDITS, sign_in
from tests.service.support.uploads import Person, free_credits, give_credits, log_file, upload
from tests.worker.support.promises import Note
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

LOG = logs.as_responses(draw_log(0)) + b'{"model": "gpt-5.4"}\nno JSON\n'


@pytest.fixture
def person(system: System) -> Person:
    """Somebody with three credits."""
    sessions = make_session_factory(system.engine)
    headers = sign_in(sessions, "uploader@example.org", system.environment["SECRET_KEY"])
    return give_credits(sessions, "uploader@example.org", 3, headers)


def _status(system: System, person: Person, audit_id: str) -> dict[str, Any]:
    url = f"{system.base_url}{AUDITS}/{audit_id}/status"
    response = requests.get(url, headers=person.headers, timeout=60)
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    assert answer.pop("audit_id") == audit_id
    return answer


def _upload(system: System, person: Person, file: bytes) -> str:
    response = upload(system.base_url, person, file)
    assert response.status_code == 201, response.text
    return str(response.json()["audit_id"])


def _wait_for(system: System, person: Person, audit_id: str, status: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        answer = _status(system, person, audit_id)
        return answer if answer["status"] == status else None

    found: dict[str, Any] = wait_until(find, 20)
    return found


def test_an_upload_becomes_the_report_of_its_file_and_its_status_grows_until_then(
    system: System, person: Person, tmp_path: Path
) -> None:
    file = tmp_path / "usage.jsonl"
    file.write_bytes(LOG)
    report = detectors.audit(detectors.read(file).received(utc_now()))
    system.delay_audits(1.0)
    with system.without_workers():
        ids = [_upload(system, person, LOG) for _ in range(2)]
        answer = [_status(system, person, audit_id) for audit_id in ids]
        assert answer == [{"status": "queued", "queue_position": place} for place in range(2)]
    # The delay comes after validation, so that its outcome shows while the audit runs.
    validated = wait_until(lambda: _validated(system, person, ids[0]), 20)
    assert validated["status"] == "processing"
    for audit_id in ids:
        answer = [_wait_for(system, person, audit_id, "done")]
        assert answer == [{"status": "done", "valid_pct": report.audit.valid_pct}]
    query = "SELECT document FROM reports"
    assert [bytes(row.document) for row in system.rows(query)] == [report.to_json()] * 2
    assert free_credits(make_session_factory(system.engine), person) == 1


def _validated(system: System, person: Person, audit_id: str) -> dict[str, Any] | None:
    answer = _status(system, person, audit_id)
    return answer if "valid_pct" in answer else None


def test_a_mostly_invalid_upload_fails_clearly_and_returns_its_credit(
    system: System, person: Person
) -> None:
    audit_id = _upload(system, person, log_file(1) + b"no JSON\n" * 3)
    answer = _wait_for(system, person, audit_id, "failed")
    assert answer["valid_pct"] == 25.0
    assert answer["error"].startswith(
        "Only 25.0% of the rows could be read (at least half must be); fix the most common problem:"
    )
    assert free_credits(make_session_factory(system.engine), person) == 3


@pytest.mark.stress
def test_a_poison_upload_fails_and_returns_its_credit_once(
    system: System, person: Person, note: Note
) -> None:
    """After three attempts, without a report; the workers live on.

    By default, `tests/worker/jobs/test_outages.py` has the attempts, and
    `tests/worker/storage/test_stored_uploads.py` the credit, without processes.
    """
    (system.control / "poison").touch()
    audit_id = _upload(system, person, LOG)
    wait_until(lambda: system.audit(audit_id).status == "failed", 60)
    (system.control / "poison").unlink()
    answer, audit = _status(system, person, audit_id), system.audit(audit_id)
    assert "in each of its 3 attempts" in answer["error"]
    assert (audit.attempts, audit.lease_token) == (3, None)
    assert system.reports_of([audit_id]) == {audit_id: 0}
    system.wait_done(system.ingest(), 20)
    losses = abs(free_credits(make_session_factory(system.engine), person) - 3)
    note("17 a poison upload ends, and its credit comes back once", 1, losses)
