"""A file that is uploaded again adds no calls to its account, with or without request IDs."""

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal

import msgspec
import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from detectors.formats import decode_batch
from service.models import Account, Audit, CallImport, SpendRow
from worker import compact_calls, run_audit

Import = Callable[..., str]


def batch(records: int, **fields: object) -> bytes:
    """Return an ingest body with calls that have no request ID."""
    calls = [
        {
            "ts": f"2026-10-01T12:00:{number % 60:02d}Z",
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 900 + number,
            "completion_tokens": 60,
            **fields,
        }
        for number in range(records)
    ]
    return msgspec.json.encode({"records": calls})


def spend(engine: Engine, account_id: str) -> tuple[int, Decimal]:
    query = select(func.sum(SpendRow.calls), func.sum(SpendRow.cost_usd))
    with Session(engine) as session:
        calls, cost = session.execute(query.where(SpendRow.account_id == account_id)).one()
    return int(calls or 0), Decimal(cost or 0)


def rerun(engine: Engine, audit_id: str) -> None:
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_id).values(status="queued"))
    run_audit(audit_id)


def test_a_file_uploaded_again_counts_once(
    engine: Engine, account_id: str, publish: Import
) -> None:
    first = publish(batch(30), "upload")
    counted = spend(engine, account_id)
    again = publish(batch(30), "upload")
    assert spend(engine, account_id) == counted
    compact_calls(account_id)
    for audit_id in (again, first, again):
        rerun(engine, audit_id)
    assert spend(engine, account_id) == counted
    assert counted[0] == 30
    with Session(engine) as session:
        assert session.scalars(select(CallImport.audit_id)).all() == [first]
        assert session.get_one(Audit, again).status == "done"


def test_other_files_and_batches_with_equal_calls_count_as_they_came(
    engine: Engine, account_id: str, publish: Import
) -> None:
    publish(batch(30), "upload")
    publish(batch(31), "upload")
    for _ in range(2):
        publish(batch(30))
    assert spend(engine, account_id)[0] == 121


def test_copies_that_are_published_together_count_once(
    engine: Engine, account_id: str, store: Import
) -> None:
    """Small audits of one queue are published in one transaction."""
    first, again = (store(decode_batch(batch(10)), "upload") for _ in range(2))
    threads = [threading.Thread(target=run_audit, args=[each]) for each in (first, again)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Session(engine) as session:
        statuses = session.scalars(select(Audit.status)).all()
    assert statuses == ["done", "done"]
    assert spend(engine, account_id)[0] == 10


def test_if_the_first_upload_fails_the_second_counts(
    engine: Engine, account_id: str, store: Import, publish: Import
) -> None:
    first = store(decode_batch(batch(10)), "upload")
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == first).values(status="failed"))
    publish(batch(10), "upload")
    assert spend(engine, account_id)[0] == 10


@pytest.fixture
def other_id(engine: Engine) -> Iterator[str]:
    """Another account, for as long as the test."""
    with Session(engine) as session:
        account = Account(email="other@example.com")
        session.add(account)
        session.commit()
        yield account.id
        session.delete(account)
        session.commit()


def test_the_same_file_counts_in_each_account_that_uploads_it(
    engine: Engine, account_id: str, other_id: str, publish: Import
) -> None:
    for owner in (account_id, other_id, account_id):
        publish(batch(10), "upload", owner)
    assert spend(engine, account_id) == spend(engine, other_id)
    assert spend(engine, account_id)[0] == 10
