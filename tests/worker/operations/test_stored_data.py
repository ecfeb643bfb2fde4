"""What each account stores is measured once a day, and shown to its owner and the operator."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.models import Audit, CallFile, StoredData
from service.models.audits.capacity import sum_stored_bytes
from service.models.base import utc_now
from service.models.operations.stored_data import find_stored_data, list_largest, measure_accounts
from tests.worker.support.stored import load
from worker import compact_calls, run_audit


def measure(engine: Engine) -> int:
    """Measure all accounts that are due; return how many."""
    measured = 0
    while True:
        with engine.begin() as connection:
            count = measure_accounts(connection)
        measured += count
        if not count:
            return measured


def find(engine: Engine, account_id: str) -> StoredData:
    with Session(engine, expire_on_commit=False) as session:
        found = find_stored_data(session, account_id)
    assert found is not None
    return found


def change_audits(engine: Engine, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(update(Audit).values(values))


def test_an_account_is_measured_once_a_day(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    account_id = load(engine, audit_id).account_id
    change_audits(engine, raw_bytes=1_000)
    run_audit(audit_id)
    assert measure(engine) > 0
    first = find(engine, account_id)
    assert first.raw_bytes == 1_000
    assert first.call_bytes == len(blobs.get(load(engine, audit_id).frame_key or ""))
    assert first.report_bytes > 1_000
    assert first.spend_bytes > 1_000
    change_audits(engine, raw_purged_at=utc_now())
    assert measure(engine) == 0
    assert find(engine, account_id).raw_bytes == 1_000
    with engine.begin() as connection:
        earlier = func.now() - timedelta(days=1)
        connection.execute(update(StoredData).values(measured_at=earlier))
    assert measure(engine) > 0
    assert find(engine, account_id).raw_bytes == 0


def test_merged_files_count_besides_the_frames(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    account_id = load(engine, audit_id).account_id
    run_audit(audit_id)
    frame = load(engine, audit_id).frame_bytes or 0
    with engine.begin() as connection:  # no more calls come
        earlier = utc_now() - timedelta(hours=1)
        connection.execute(update(CallFile).values(created_at=earlier))
    compact_calls(account_id)
    measure(engine)
    with Session(engine) as session:
        live = (CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
        merged = int(session.scalar(select(func.sum(CallFile.bytes)).where(*live)) or 0)
        assert sum_stored_bytes(session, account_id) == frame + merged
    assert merged > 0
    assert find(engine, account_id).call_bytes == frame + merged


def test_the_largest_accounts_lead(engine: Engine, new_audit: Callable[[], str]) -> None:
    account_id = load(engine, new_audit()).account_id
    change_audits(engine, raw_bytes=10**12)
    measure(engine)
    with Session(engine) as session:
        largest = list_largest(session)[0]
    assert (largest.account_id, largest.email) == (account_id, "worker@example.com")
    assert largest.total_bytes == 10**12
