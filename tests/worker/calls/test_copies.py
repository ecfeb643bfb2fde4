"""A file that is uploaded again adds no calls to its account, with or without request IDs."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations, product
from typing import Any, Final

import msgspec
import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from detectors.formats import decode_batch
from service.models import Audit, CallImport, SpendRow
from service.models.base import utc_now
from tests.worker.calls.test_account_audits import audit_account, report_of
from tests.worker.calls.test_call_store import rerun, spend
from tests.worker.support.promises import sampled
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


def test_the_same_file_counts_in_each_account_that_uploads_it(
    engine: Engine, account_id: str, other_account_id: str, publish: Import
) -> None:
    for owner in (account_id, other_account_id, account_id):
        publish(batch(10), "upload", owner)
    assert spend(engine, account_id) == spend(engine, other_account_id)
    assert spend(engine, account_id)[0] == 10


# A client, a gateway's export and a trace, seconds apart across midnight.
_WAYS: Final[list[tuple[str, int, dict[str, Any]]]] = [
    ("ingest", -2, {"provider": "anthropic", "model": "claude-opus-4-8", "completion_tokens": 1}),
    ("upload", 1, {"provider": "litellm", "model": "opus", "completion_tokens": 400}),
    ("ingest", 3, {"provider": "aws", "model": "claude-opus-4-8", "completion_tokens": 390}),
]


@pytest.mark.parametrize(
    "given",
    # Two of them always, because only all of the store together shows what is never compared.
    sampled(product([0, 3], [False, True], permutations(_WAYS)), 18),
)
def test_a_response_that_came_on_both_sides_of_midnight_counts_once(
    given: tuple[int, bool, Sequence[Any]], engine: Engine, account_id: str, publish: Import
) -> None:
    """Whatever is merged or audited in between: the larger counts stay, at the earlier time."""
    days, is_audited, ways = given
    now = utc_now() - timedelta(seconds=10)
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(days=days)
    for number, (source, seconds, fields) in enumerate(ways):
        at = (midnight + timedelta(seconds=seconds)).isoformat()
        for request_id in ("msg_01A", f"msg_of_{number}"):
            publish(batch(1, ts=at, request_id=request_id, **fields), source)
        compact_calls(account_id)
        if is_audited:
            audit_account(engine, account_id)
    report = report_of(engine, audit_account(engine, account_id).id)
    calls, cost = spend(engine, account_id)
    assert calls == report.audit.records == 4
    assert cost == report.audit.total_spend_usd
    query = select(func.sum(SpendRow.completion_tokens)).where(SpendRow.day < midnight.date())
    with Session(engine) as session:
        assert session.scalar(query) == 1 + 400
