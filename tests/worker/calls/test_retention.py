"""Reports, audits of accounts and calls end when their time is over, and their figures stay."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from detectors.report.account import call_files
from service.config import Config
from service.core.blobs import BlobStore
from service.models import (
    Audit,
    CallFile,
    CallImport,
    FindingRecord,
    FindingRow,
    ReportLink,
    SpendRow,
)
from service.models.base import new_id, utc_now
from service.models.operations.retention import (
    delete_account_audits,
    delete_batch_reports,
    delete_finding_history,
    delete_old_spend,
    delete_replaced,
    purge_old,
)
from service.operations.maintenance import orphan_blobs
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from tests.service.support.findings import add_account_finding
from tests.worker.calls.test_call_store import batch, compact, live, spend, stored_ids
from tests.worker.support.stored import document, load
from worker import run_audit

NewBatch = Callable[[bytes], str]
FOREVER = 100_000


def end(engine: Engine, audit_id: str, days: float, **values: Any) -> None:
    """Move the end of an audit and the issue of its link into the past."""
    at = utc_now() - timedelta(days=days)
    own = {"finished_at": at, "raw_purged_at": at, **values}
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_id).values(own))
        link = update(ReportLink).where(ReportLink.audit_id == audit_id)
        connection.execute(link.values(issued_at=at))


def delete_reports(engine: Engine, days: int = 30, link_days: int = 30) -> int:
    with engine.begin() as connection:
        return delete_batch_reports(connection, days, link_days)


def clear_orphans(engine: Engine, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_blobs, "_OLD_SECONDS", -60.0)
    with engine.connect() as connection:
        OrphanBlobs(blobs).clear_page(connection)


def test_the_report_of_a_batch_is_deleted_and_its_figures_and_calls_stay(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit_id = publish(batch(60))
    before, spent = load(engine, audit_id), spend(engine, account_id)
    end(engine, audit_id, 29.9)
    assert delete_reports(engine) == 0
    end(engine, audit_id, 30.1)
    assert delete_reports(engine) == 1
    assert delete_reports(engine) == 0
    after = load(engine, audit_id)
    assert document(engine, audit_id) is None
    with Session(engine) as session:
        assert (
            session.scalars(select(FindingRow).where(FindingRow.audit_id == audit_id)).all() == []
        )
        assert session.get(CallImport, audit_id) is None
    assert (after.frame_key, after.frame_bytes, after.rerun_key) == (None, None, None)
    assert (after.status, after.records) == ("done", before.records)
    assert (after.total_spend_usd, after.findings_count) == (
        before.total_spend_usd,
        before.findings_count,
    )
    clear_orphans(engine, blobs, monkeypatch)
    assert len(stored_ids(engine, blobs, account_id)) == 60  # the frame is still a call file
    compact(engine, account_id)
    clear_orphans(engine, blobs, monkeypatch)
    assert not blobs.exists(before.frame_key or "")
    assert len(stored_ids(engine, blobs, account_id)) == 60
    assert spend(engine, account_id) == spent


@pytest.mark.parametrize(
    "kept", ["upload", "queued", "with records", "linked", "not in the call store"]
)
def test_a_report_stays_while_something_needs_it(
    engine: Engine, publish: NewBatch, kept: str
) -> None:
    audit_id = publish(batch(20))
    end(engine, audit_id, 40)
    changes: dict[str, dict[str, Any]] = {
        "upload": {"source": "upload"},
        "queued": {"status": "queued"},
        "with records": {"raw_purged_at": None},
    }
    with Session(engine) as session:
        if kept in changes:
            session.execute(update(Audit).where(Audit.id == audit_id).values(changes[kept]))
        elif kept == "linked":
            account_id = load(engine, audit_id).account_id
            issued_at = utc_now() - timedelta(days=29)
            session.merge(ReportLink(audit_id=audit_id, account_id=account_id, issued_at=issued_at))
        else:
            session.delete(session.get_one(CallImport, audit_id))
        session.commit()
    assert delete_reports(engine) == 0
    assert document(engine, audit_id) is not None


def add_account_audit(engine: Engine, account_id: str, at: datetime, window: int = 30) -> str:
    audit = Audit(
        id=new_id(),
        account_id=account_id,
        source="account",
        status="done",
        blob_key="",
        window_days=window,
        finished_at=at,
    )
    with Session(engine, expire_on_commit=False) as session:
        session.add(audit)
        session.commit()
    return audit.id


def test_of_audits_of_an_account_the_last_of_each_day_and_later_of_each_month_stay(
    engine: Engine, account_id: str
) -> None:
    now = utc_now().replace(hour=12)
    month = now.replace(day=15, hour=12) - timedelta(days=75)
    ids = [
        add_account_audit(engine, account_id, month + timedelta(hours=each)) for each in range(4)
    ]
    seven = add_account_audit(engine, account_id, month, window=7)
    recent = [add_account_audit(engine, account_id, now - timedelta(days=day)) for day in (29, 1)]
    lately = [
        add_account_audit(engine, account_id, now - timedelta(days=day, hours=hour))
        for day in (40, 41)
        for hour in (0, 1)
    ]
    ancient = [
        add_account_audit(engine, account_id, now - timedelta(days=day)) for day in (500, 600)
    ]
    with Session(engine) as session:
        add_account_finding(session, account_id, audit_id=ids[1])
    with engine.begin() as connection:
        assert delete_account_audits(connection, 30, 400, 30) == 6
        assert delete_account_audits(connection, 30, 400, 30) == 0
    with Session(engine) as session:
        left = set(session.scalars(select(Audit.id).where(Audit.source == "account")))
    assert left == {ids[1], ids[3], seven, *recent, lately[0], lately[2]}
    assert not left & set(ancient)


def test_the_history_of_a_finding_is_one_record_per_day_after_30_days(
    engine: Engine, account_id: str
) -> None:
    noon = utc_now().replace(hour=12)
    with Session(engine) as session:
        finding = add_account_finding(session, account_id)
        times = [noon - timedelta(days=day, hours=hour) for day in (3, 33) for hour in range(3)]
        for number, at in enumerate((*times, noon - timedelta(days=401))):
            record = {"audit_id": f"a{number}", "audited_at": at, "calls": 1}
            usd = {"monthly_usd": Decimal(1), "observed_usd": Decimal(1)}
            session.add(FindingRecord(account_finding_id=finding.id, **record, **usd))
        session.commit()
    with engine.begin() as connection:
        assert delete_finding_history(connection, 30, 400) == 3
    with Session(engine) as session:
        left = session.scalars(select(FindingRecord.audited_at)).all()
    assert sorted(left) == sorted(times[:4])


def age_files(engine: Engine, days: int) -> None:
    """Move the days of all live files, and their making, into the past."""
    with engine.begin() as connection:
        day = utc_now().date() - timedelta(days=days)
        values = {"first_day": day, "last_day": day, "created_at": utc_now() - timedelta(days=31)}
        connection.execute(update(CallFile).where(CallFile.replaced_at.is_(None)).values(values))


def test_old_calls_are_purged_with_their_blobs_and_their_spend_stays(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_files, "SPARSE_CALLS", 0)  # so that each day has its own file
    publish(batch(60))
    compact(engine, account_id)
    keys, spent = [file.blob_key for file in live(engine, account_id)], spend(engine, account_id)
    age_files(engine, 400)
    with engine.begin() as connection:
        assert purge_old(connection, 400, 10) == 0
    age_files(engine, 401)
    with engine.begin() as connection:
        assert purge_old(connection, 400, 2) == 2  # in batches
        assert purge_old(connection, 400, 2) == 1
        connection.execute(update(CallFile).values(replaced_at=func.now() - timedelta(days=3)))
        assert delete_replaced(connection, 10) == 1  # the frame, which was merged
    assert live(engine, account_id) == []
    assert spend(engine, account_id) == spent
    clear_orphans(engine, blobs, monkeypatch)
    assert not any(map(blobs.exists, keys))
    with engine.begin() as connection:
        assert delete_old_spend(connection, FOREVER, 10) == 0
        assert delete_old_spend(connection, 400, 10) == 3
    with Session(engine) as session:
        assert session.scalars(select(SpendRow.id)).all() == []


def test_calls_that_were_long_past_when_they_came_stay_for_30_days(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(batch(30))
    compact(engine, account_id)
    age_files(engine, 2_000)
    with engine.begin() as connection:
        connection.execute(update(CallFile).values(created_at=utc_now() - timedelta(days=29)))
        assert purge_old(connection, 400, 10) == 0


def test_housekeeping_deletes_reports_by_its_settings(
    config: Config, engine: Engine, blobs: BlobStore, publish: NewBatch
) -> None:
    assert (config.report_retention_days, config.call_retention_days) == (30, 400)
    audit_id = publish(batch(20))
    end(engine, audit_id, 31)
    housekeeping = Housekeeping(config, blobs)
    with engine.connect() as connection:
        for _ in range(20):
            housekeeping.take_turn(connection)
    assert load(engine, audit_id).report_deleted_at is not None
    run_audit(audit_id)  # a late wake-up
    assert load(engine, audit_id).status == "done"
