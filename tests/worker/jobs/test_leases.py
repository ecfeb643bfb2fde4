"""Leases decide who may process an audit, and who may publish it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, update

from detectors.report import account
from service.core.blobs import BlobStore
from service.models import Audit
from service.models.audits.leases import Claim, requeue_audit
from tests.worker.support.claims import claim_audit
from tests.worker.support.stored import document, load
from worker import run_audit

real_audit = account.audit_imports


def test_an_attempt_whose_lease_was_taken_publishes_nothing(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*terms: Any) -> Any:
        with engine.begin() as connection:
            connection.execute(
                update(Audit).where(Audit.attempts == 1).values(lease_token="another's")
            )
        return real_audit(*terms)

    monkeypatch.setattr(account, "audit_imports", lose)
    audit_id = new_audit()
    run_audit(audit_id)

    assert load(engine, audit_id).status == "processing"
    assert load(engine, audit_id).lease_token == "another's"
    assert document(engine, audit_id) is None
    assert not blobs.exists(f"frames/{audit_id}-1.parquet")


def test_a_lease_is_renewed_while_the_audit_runs(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASE_SECONDS", "2")  # a busy machine renews it late
    audit_id = new_audit()
    taken = []

    def take_long(*terms: Any) -> Any:
        ends_at = time.monotonic() + 3  # a lease and a half
        while time.monotonic() < ends_at:
            with engine.begin() as connection:
                taken.append(claim_audit(connection, audit_id, 1))
            time.sleep(0.1)
        return real_audit(*terms)

    monkeypatch.setattr(account, "audit_imports", take_long)
    run_audit(audit_id)
    assert set(taken) == {None}
    assert load(engine, audit_id).status == "done"


def test_a_later_start_takes_the_place_of_one_that_died(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    with engine.begin() as connection:
        claim = claim_audit(connection, audit_id, 0.05)
    assert claim is not None
    blobs.put(claim.frame_key, b"half a frame")
    time.sleep(0.1)
    run_audit(audit_id)
    assert load(engine, audit_id).frame_key == f"frames/{audit_id}-2.parquet"
    assert not blobs.exists(claim.frame_key)


def test_an_audit_can_be_stopped_any_number_of_times(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    """As workers do that end: none of its starts counts as an attempt."""
    audit_id = new_audit()
    for starts in range(1, 6):
        with engine.begin() as connection:
            claim = claim_audit(connection, audit_id, 30)
            assert claim is not None
            assert (claim.attempt, claim.counted_attempt) == (starts, 1)
            assert requeue_audit(connection, claim) is not None


def test_of_many_claims_one_succeeds(engine: Engine, new_audit: Callable[[], str]) -> None:
    audit_id = new_audit()

    def claim(_number: int) -> bool:
        with engine.begin() as connection:
            found = claim_audit(connection, audit_id, 30)
        return found is not None

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(40))) == 1
    assert load(engine, audit_id).attempts == 1


def test_a_commit_whose_response_was_lost_is_not_a_lost_lease(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is committed, and then done once more as if nobody had heard of it."""

    def transact_twice(
        engine: Engine, step: Callable[[Connection], Any], *, is_durable: bool = True
    ) -> Any:
        with engine.begin() as connection:
            first = step(connection)
        if not isinstance(first, Claim):
            with engine.begin() as connection:
                step(connection)
        return first

    monkeypatch.setattr("worker.transact", transact_twice)
    audit_id = new_audit()
    run_audit(audit_id)
    audit = load(engine, audit_id)
    assert audit.status == "done"
    assert audit.frame_key is not None
    assert blobs.exists(audit.frame_key)
