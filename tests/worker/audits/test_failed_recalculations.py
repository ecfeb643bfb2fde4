"""An audit whose recalculation fails goes back to the report that it has."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from detectors.errors import TooFewValidRowsError
from detectors.report import account
from service.core.blobs import BlobStore
from service.models import Audit
from service.models.audits.leases import fail_exhausted, requeue_expired
from service.operations.recalculation import recalculate
from tests.worker.support.claims import claim_audit
from tests.worker.support.stored import document, load
from worker import run_audit

KEPT = ("status", "finished_at", "valid_pct", "frame_key", "total_spend_usd", "findings_count")


@pytest.fixture
def reported(engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]) -> Audit:
    """An audit with a report, queued to be recalculated; returns it as it was before."""
    audit_id = new_audit()
    run_audit(audit_id)
    before = load(engine, audit_id)
    with Session(engine) as session:
        recalculate(session, blobs, before.account_id, audit_id)
        session.commit()
    return before


def check_restored(engine: Engine, blobs: BlobStore, before: Audit, report: bytes | None) -> Audit:
    audit = load(engine, before.id)
    for name in KEPT:
        assert getattr(audit, name) == getattr(before, name), name
    assert document(engine, before.id) == report is not None
    assert blobs.exists(audit.frame_key or "")
    return audit


def test_data_at_fault_leaves_the_report(
    engine: Engine, blobs: BlobStore, reported: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_terms: Any) -> Any:
        raise TooFewValidRowsError(12.5, 50)

    report = document(engine, reported.id)
    monkeypatch.setattr(account, "audit_imports", refuse)
    run_audit(reported.id)
    audit = check_restored(engine, blobs, reported, report)
    assert audit.error == "Only 12.5% of the rows could be read (at least half must be)."


def test_unexpected_errors_leave_the_report_after_the_last_attempt(
    engine: Engine, blobs: BlobStore, reported: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = document(engine, reported.id)
    monkeypatch.setattr(account, "audit_imports", lambda *_terms: 1 / 0)
    for status in ("queued", "queued", "done"):
        with pytest.raises(ZeroDivisionError):
            run_audit(reported.id)
        assert load(engine, reported.id).status == status
    audit = check_restored(engine, blobs, reported, report)
    assert "in each of its 3 attempts" in (audit.error or "")


def test_killed_workers_leave_the_report_and_the_next_recalculation_clears_the_error(
    engine: Engine, blobs: BlobStore, reported: Audit
) -> None:
    report = document(engine, reported.id)
    for _ in range(3):
        with engine.begin() as connection:
            assert claim_audit(connection, reported.id, -1)
            requeue_expired(connection)
    with engine.begin() as connection:
        assert fail_exhausted(connection, 3) == [reported.id]
    audit = check_restored(engine, blobs, reported, report)
    assert "in each of its 3 attempts" in (audit.error or "")

    with Session(engine) as session:
        recalculate(session, blobs, audit.account_id, audit.id)
        session.commit()
    run_audit(audit.id)
    audit = load(engine, audit.id)
    assert (audit.status, audit.error) == ("done", None)
