"""The calls behind a finding, computed again from the stored frame for a download."""

import csv
import zipfile
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO, StringIO

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from detectors.frames import parts
from detectors.report.account import stored_calls
from service.core.blobs import BlobNotFoundError, BlobStore
from service.models import Audit, FindingRow
from service.models.audits.blob_keys import calls_key, frame_key
from service.models.base import utc_now
from service.models.calls.account_audits import queue_account_audit
from tests.worker.support.stored import load
from worker import run_audit, write_calls


def _first_finding(engine: Engine, audit_id: str) -> FindingRow:
    with Session(engine, expire_on_commit=False) as session:
        query = select(FindingRow).where(FindingRow.audit_id == audit_id).order_by(FindingRow.rank)
        return session.scalars(query).all()[0]


def _key(engine: Engine, finding: FindingRow) -> str:
    return calls_key(load(engine, finding.audit_id).frame_key or "", finding.id)


def test_the_calls_of_a_finding_are_written_while_they_are_those_of_the_report(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    finding = _first_finding(engine, audit_id)
    write_calls(f"{audit_id}/{finding.id}")
    text = blobs.get(_key(engine, finding)).decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(text)))
    assert len(rows) == finding.calls
    saved = sum(Decimal(row["saving_usd"]) for row in rows)
    assert saved == pytest.approx(finding.observed_cost_impact_usd, abs=Decimal("0.000001"))
    # A workbook has a row for each call.
    write_calls(f"{audit_id}/{finding.id}.xlsx")
    frame = load(engine, audit_id).frame_key or ""
    book = zipfile.ZipFile(BytesIO(blobs.get(calls_key(frame, finding.id, "xlsx"))))
    sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert sheet.count("<row ") == finding.calls + 1
    assert "<t>saving_usd</t>" in sheet
    assert "<f>" not in sheet
    # Calls that differ from the report are not written.
    with engine.begin() as connection:
        other = {"observed_cost_impact_usd": finding.observed_cost_impact_usd + 1}
        own = (FindingRow.audit_id == audit_id, FindingRow.id == finding.id)
        connection.execute(update(FindingRow).where(*own).values(other))
    write_calls(f"{audit_id}/{finding.id}")
    assert blobs.get(_key(engine, finding)) == b""


def test_no_calls_are_written_once_the_records_are_deleted(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    finding = _first_finding(engine, audit_id)
    with engine.begin() as connection:
        purged = update(Audit).where(Audit.id == audit_id).values(raw_purged_at=utc_now())
        connection.execute(purged)
    write_calls(f"{audit_id}/{finding.id}")
    write_calls(f"{audit_id}/d9-999")
    with pytest.raises(BlobNotFoundError):
        blobs.get(_key(engine, finding))


def test_the_calls_of_an_account_are_those_of_its_latest_window(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same calls as those of its only import, also of an audit in parts."""
    imported = new_audit()
    run_audit(imported)
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, load(engine, imported).account_id, 30)
    assert audit_id is not None
    run_audit(audit_id)
    finding = _first_finding(engine, audit_id)
    key = calls_key(frame_key(audit_id, 0), finding.id)
    write_calls(f"{audit_id}/{finding.id}.csv")
    rows = list(csv.DictReader(StringIO(blobs.get(key).decode("utf-8-sig"))))
    assert len(rows) == finding.calls
    saved = sum(Decimal(row["saving_usd"]) for row in rows)
    assert saved == pytest.approx(finding.observed_cost_impact_usd, abs=Decimal("0.000001"))
    whole = blobs.get(key)
    monkeypatch.setattr(stored_calls, "MEMORY_CALLS", 1)
    monkeypatch.setattr(stored_calls, "ONE_PART_CALLS", 1)
    monkeypatch.setattr(parts, "PART_CALLS", 1 + len(rows) // 2)
    write_calls(f"{audit_id}/{finding.id}.csv")
    assert blobs.get(key) == whole
