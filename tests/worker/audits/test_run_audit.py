"""`run_audit` on a real database and real files, in this process."""

from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from detectors.contract import Report
from detectors.errors import TooFewValidRowsError
from detectors.frames import read_log
from detectors.report import account
from service.config import Config
from service.core.blobs import BlobStore
from service.models import Audit, FindingRow
from service.models.audits.results import COPIED
from tests.worker.support.stored import document, load
from tests.worker.support.traffic import RECORDS
from worker import run_audit


def test_an_audit_writes_its_report_once_and_a_rerun_the_same(
    engine: Engine, new_audit: Callable[[], str], blobs: BlobStore, config: Config
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)

    audit, report = load(engine, audit_id), Report.from_json(document(engine, audit_id) or b"")
    assert (audit.status, audit.error, audit.attempts) == ("done", None, 1)
    assert (audit.lease_token, audit.lease_expires_at) == (None, None)
    assert audit.records == report.audit.records == RECORDS
    assert audit.valid_pct == 100.0
    assert audit.total_spend_usd == report.audit.total_spend_usd > 0
    for name in (*COPIED, "projection"):
        assert getattr(audit, name) == getattr(report.audit, name), name
    assert audit.window_start == datetime.fromisoformat(report.audit.window_start or "")
    with Session(engine) as session:
        query = select(FindingRow).where(FindingRow.audit_id == audit_id).order_by(FindingRow.rank)
        rows = session.scalars(query).all()
    assert [row.id for row in rows] == [finding.id for finding in report.findings]
    assert audit.findings_count == len(rows) > 0
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    for row, finding in zip(rows, report.findings, strict=True):
        assert row.monthly_cost_impact_usd == finding.monthly_cost_impact_usd
        assert (row.impact_low, row.impact_high) == (finding.impact_low, finding.impact_high)
        assert row.first_seen == datetime.fromisoformat(finding.first_seen or "")
        assert row.last_seen == datetime.fromisoformat(finding.last_seen or "")
    # It keeps the calls as a frame.
    frame_key = load(engine, audit_id).frame_key
    assert frame_key == f"frames/{audit_id}-1.parquet"
    assert read_log(BytesIO(blobs.get(frame_key))).frame.height == RECORDS
    # An audit that is done is not run again.
    finished_at = load(engine, audit_id).finished_at
    run_audit(audit_id)
    assert load(engine, audit_id).finished_at == finished_at
    assert load(engine, audit_id).attempts == 1
    # Queued once more, as an administrator may ask, it has the same report.
    before = document(engine, audit_id)
    with engine.begin() as connection:
        connection.execute(
            update(Audit).where(Audit.id == audit_id).values(status="queued", attempts=0)
        )
    run_audit(audit_id)
    assert load(engine, audit_id).status == "done"
    assert document(engine, audit_id) == before
    # One that is unknown is passed over.
    run_audit("no-such-audit")


def test_data_at_fault_fails_at_once_with_its_message(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_terms: Any) -> Any:
        raise TooFewValidRowsError(12.5, 50)

    monkeypatch.setattr(account, "audit_imports", refuse)
    audit_id = new_audit()
    run_audit(audit_id)

    audit = load(engine, audit_id)
    assert (audit.status, audit.attempts) == ("failed", 1)
    assert audit.error == "Only 12.5% of the rows could be read (at least half must be)."
    assert audit.finished_at is not None
    assert audit.valid_pct == 100.0  # noted before the audit


def test_an_unexpected_error_is_tried_three_times(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_terms: Any) -> Any:
        raise RuntimeError("a record says 4711")

    monkeypatch.setattr(account, "audit_imports", break_off)
    audit_id = new_audit()
    for status in ("queued", "queued", "failed"):
        with pytest.raises(RuntimeError):
            run_audit(audit_id)
        assert load(engine, audit_id).status == status

    audit = load(engine, audit_id)
    assert audit.attempts == 3
    assert "in each of its 3 attempts" in (audit.error or "")
    assert "4711" not in (audit.error or "")
    assert document(engine, audit_id) is None


def test_an_error_while_publishing_leaves_no_frame(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.operations.publishing.publish_reports", lambda *_: 1 / 0)
    audit_id = new_audit()
    with pytest.raises(ZeroDivisionError):
        run_audit(audit_id)
    assert load(engine, audit_id).status == "queued"
    assert not blobs.exists(f"frames/{audit_id}-1.parquet")


def test_a_missing_blob_is_no_fault_of_the_data(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    blobs.delete(f"raw/{audit_id}.jsonl")
    run_audit(audit_id)
    assert load(engine, audit_id).status == "queued"
