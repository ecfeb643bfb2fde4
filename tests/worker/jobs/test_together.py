"""Small audits that are claimed together: one report each, whatever happens to one of them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import Engine, delete, select, update
from sqlalchemy.orm import Session

import worker
from detectors.contract import MAX_BATCH_RECORDS
from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.queues import AuditQueues
from service.models import Audit, ReportRow
from service.models.audits.leases import Claim
from tests.worker.support.stored import document, load
from worker import run_audit

COUNT = 24  # three at once
FIRST = 3

NewAudit = Callable[[], str]


@pytest.fixture
def audit_ids(new_audit: NewAudit) -> list[str]:
    return [new_audit() for _ in range(COUNT)]


def statuses(engine: Engine) -> dict[str, int]:
    with Session(engine) as session:
        found = session.scalars(select(Audit.status)).all()
    return {status: found.count(status) for status in found}


def test_several_audits_of_a_long_queue_have_a_report_each(
    engine: Engine, blobs: BlobStore, audit_ids: list[str]
) -> None:
    with engine.begin() as connection:
        connection.execute(update(Audit).values(records=MAX_BATCH_RECORDS))  # the largest batches
    run_audit(audit_ids[0])
    assert statuses(engine) == {"done": FIRST, "queued": COUNT - FIRST}
    alone, rest = audit_ids[-1], audit_ids[2 * FIRST : -1]
    with engine.begin() as connection:
        connection.execute(delete(Audit).where(Audit.id.in_(rest)))
    ran = [one for one in audit_ids if one not in rest]
    while statuses(engine).get("queued"):
        run_audit(alone)
    assert statuses(engine) == {"done": len(ran)}
    assert len({document(engine, one) for one in ran}) == 1  # the same records
    with Session(engine) as session:
        assert len(session.scalars(select(ReportRow.audit_id)).all()) == len(ran)
    for one in ran:
        audit = load(engine, one)
        assert (audit.attempts, audit.lease_token, audit.valid_pct) == (1, None, 100.0)
        assert audit.frame_key is not None
        assert audit.frame_bytes == len(blobs.get(audit.frame_key))


def test_the_wake_ups_of_the_others_are_dropped(
    engine: Engine, config: Config, audit_ids: list[str]
) -> None:
    queues = AuditQueues.from_config(config)
    with Redis.from_url(config.redis_url) as redis:
        redis.flushall()
        for one in audit_ids:
            queues.enqueue_audit(one)
        redis.lrem("rq:queue:ingest", 1, f"audit-{audit_ids[0]}-1")  # as a worker takes it
        run_audit(audit_ids[0])
        left = [name.decode() for name in redis.lrange("rq:queue:ingest", 0, -1)]
        assert left == [f"audit-{one}-1" for one in audit_ids[FIRST:]]
        # One of a later audit leads to the next, and leaves as many as still wait.
        redis.lrem("rq:queue:ingest", 1, f"audit-{audit_ids[-1]}-1")
        run_audit(audit_ids[-1])
        assert redis.llen("rq:queue:ingest") == statuses(engine)["queued"]
        redis.flushall()


def test_one_broken_audit_does_not_hold_up_the_others(
    engine: Engine, blobs: BlobStore, audit_ids: list[str]
) -> None:
    blobs.delete(f"raw/{audit_ids[1]}.jsonl")
    run_audit(audit_ids[0])
    ended = [load(engine, one).status for one in audit_ids[:FIRST]]
    assert ended == ["done", "queued", "done"]


def test_an_error_of_all_together_leads_to_one_by_one(
    engine: Engine, audit_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = worker.compute

    def compute_one(claims: Sequence[Claim], *more: Any) -> Any:
        return compute(claims, *more) if len(claims) == 1 else 1 / 0

    monkeypatch.setattr(worker, "compute", compute_one)
    run_audit(audit_ids[0])
    assert [load(engine, one).status for one in audit_ids[:FIRST]] == ["done"] * FIRST


def test_a_lost_lease_publishes_nothing_and_the_others_are_published(
    engine: Engine, blobs: BlobStore, audit_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = worker.compute

    def lose(claims: list[Claim], *more: Any) -> Any:
        lost = update(Audit).where(Audit.id == audit_ids[1]).values(lease_token="another's")
        with engine.begin() as connection:
            connection.execute(lost)
        return compute(claims, *more)

    monkeypatch.setattr(worker, "compute", lose)
    run_audit(audit_ids[0])
    ended = [load(engine, one).status for one in audit_ids[:FIRST]]
    assert ended == ["done", "processing", "done"]
    assert document(engine, audit_ids[1]) is None
    assert not blobs.exists(f"frames/{audit_ids[1]}-1.parquet")


def test_an_error_while_publishing_publishes_none_of_them(
    engine: Engine, audit_ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.operations.publishing.publish_reports", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_audit(audit_ids[0])
    assert statuses(engine) == {"queued": COUNT}
    assert [load(engine, one).attempts for one in audit_ids[: FIRST + 1]] == [1, 1, 1, 0]
    assert not list(blobs_of(engine))


def blobs_of(engine: Engine) -> list[str]:
    with Session(engine) as session:
        return [key for key in session.scalars(select(Audit.frame_key)).all() if key]
