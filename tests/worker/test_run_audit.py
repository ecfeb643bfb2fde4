"""`run_audit` on a real database and real files, in this process."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, select, update
from sqlalchemy.orm import Session

import detectors
from detectors.contract import Report
from detectors.errors import TooFewValidRowsError
from detectors.formats import decode_batch, encode_records
from detectors.frames import read_frame
from service.blobs import BlobStore
from service.config import Config
from service.db import make_engine
from service.models import Account, Audit, FindingRow, ReportRow
from service.models.leases import Claim, claim_audit
from tests.worker.traffic import batch
from worker import run_audit

RECORDS = 60
real_audit = detectors.audit


@pytest.fixture
def config(
    database_url: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Config:
    settings = {
        "SECRET_KEY": "a secret key for tests, 32 or longer",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "STORAGE_URL": (tmp_path / "blobs").as_uri(),
        "LEASE_SECONDS": "0.6",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return Config.load()


@pytest.fixture
def engine(config: Config) -> Iterator[Engine]:
    engine = make_engine(config)
    yield engine
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.email == "worker@example.com"))
    engine.dispose()


@pytest.fixture
def blobs(config: Config) -> BlobStore:
    return BlobStore.from_url(config.storage_url)


@pytest.fixture
def new_audit(engine: Engine, blobs: BlobStore) -> Callable[[], str]:
    """Queues an audit of one fixed batch; returns its id."""
    with Session(engine) as session:
        account = Account(email="worker@example.com")
        session.add(account)
        session.commit()
        account_id = account.id

    def make() -> str:
        with Session(engine) as session:
            audit = Audit(account_id=account_id, source="ingest", blob_key="", records=RECORDS)
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            blobs.put(audit.blob_key, encode_records(decode_batch(batch(RECORDS))))
            session.commit()
            return audit.id

    return make


def load(engine: Engine, audit_id: str) -> Audit:
    with Session(engine, expire_on_commit=False) as session:
        return session.get_one(Audit, audit_id)


def document(engine: Engine, audit_id: str) -> bytes | None:
    query = select(ReportRow.document).where(ReportRow.audit_id == audit_id)
    with Session(engine) as session:
        return session.scalar(query)


def test_it_writes_the_report_the_findings_and_the_totals(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)

    audit, report = load(engine, audit_id), Report.from_json(document(engine, audit_id) or b"")
    assert (audit.status, audit.error, audit.starts) == ("done", None, 1)
    assert (audit.lease_token, audit.lease_expires_at) == (None, None)
    assert audit.records == report.audit.records == RECORDS
    assert audit.valid_pct == 100.0
    assert audit.total_spend_usd == report.audit.total_spend_usd > 0
    assert audit.savings_pct == report.audit.savings_pct
    with Session(engine) as session:
        query = select(FindingRow).where(FindingRow.audit_id == audit_id).order_by(FindingRow.rank)
        rows = session.scalars(query).all()
    assert [row.id for row in rows] == [finding.id for finding in report.findings]
    assert audit.findings_count == len(rows) > 0
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0].monthly_cost_impact_usd == report.findings[0].monthly_cost_impact_usd


def test_it_keeps_the_calls_as_a_frame(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    frame_key = load(engine, audit_id).frame_key
    assert frame_key == f"frames/{audit_id}-1.parquet"
    assert read_frame(BytesIO(blobs.get(frame_key))).height == RECORDS


def test_the_same_input_gives_the_same_bytes(engine: Engine, new_audit: Callable[[], str]) -> None:
    first, second = new_audit(), new_audit()
    run_audit(first)
    run_audit(second)
    assert document(engine, first) == document(engine, second)


def test_an_audit_that_is_done_is_not_run_again(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    finished_at = load(engine, audit_id).finished_at
    run_audit(audit_id)
    assert load(engine, audit_id).finished_at == finished_at
    assert load(engine, audit_id).starts == 1


def test_an_audit_that_is_unknown_is_passed_over(config: Config) -> None:
    run_audit("no-such-audit")


def test_data_at_fault_fails_at_once_with_its_message(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_log: Any) -> Report:
        raise TooFewValidRowsError(12.5, 50)

    monkeypatch.setattr(detectors, "audit", refuse)
    audit_id = new_audit()
    run_audit(audit_id)

    audit = load(engine, audit_id)
    assert (audit.status, audit.starts) == ("failed", 1)
    assert audit.error == "only 12.5 % of the rows are valid; an audit needs 50 %"
    assert audit.finished_at is not None
    assert audit.valid_pct == 100.0  # noted before the audit


def test_an_unexpected_error_is_tried_three_times(
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_off(_log: Any) -> Report:
        raise RuntimeError("a record says 4711")

    monkeypatch.setattr(detectors, "audit", break_off)
    audit_id = new_audit()
    for status in ("queued", "queued", "failed"):
        with pytest.raises(RuntimeError):
            run_audit(audit_id)
        assert load(engine, audit_id).status == status

    audit = load(engine, audit_id)
    assert audit.starts == 3
    assert "in each of its 3 attempts" in (audit.error or "")
    assert "4711" not in (audit.error or "")
    assert document(engine, audit_id) is None


def test_an_error_while_publishing_leaves_no_frame(
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker._replace_report", lambda *_: 1 / 0)
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
    with pytest.raises(FileNotFoundError):
        run_audit(audit_id)
    assert load(engine, audit_id).status == "queued"


def test_a_start_whose_lease_was_taken_publishes_nothing(
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose(log: Any) -> Report:
        with engine.begin() as connection:
            connection.execute(update(Audit).values(lease_token="another's"))
        return real_audit(log)

    monkeypatch.setattr(detectors, "audit", lose)
    audit_id = new_audit()
    run_audit(audit_id)

    assert load(engine, audit_id).status == "processing"
    assert load(engine, audit_id).lease_token == "another's"
    assert document(engine, audit_id) is None
    assert not blobs.exists(f"frames/{audit_id}-1.parquet")


def test_a_lease_is_renewed_while_the_audit_runs(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id = new_audit()
    taken = []

    def take_long(log: Any) -> Report:
        ends_at = time.monotonic() + 1.5  # two and a half leases
        while time.monotonic() < ends_at:
            with engine.begin() as connection:
                taken.append(claim_audit(connection, audit_id, lease_seconds=1, max_starts=3))
            time.sleep(0.05)
        return real_audit(log)

    monkeypatch.setattr(detectors, "audit", take_long)
    run_audit(audit_id)
    assert set(taken) == {None}
    assert load(engine, audit_id).status == "done"


def test_a_later_start_takes_the_place_of_one_that_died(
    engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    with engine.begin() as connection:
        claim = claim_audit(connection, audit_id, lease_seconds=0.05, max_starts=3)
    assert claim is not None
    blobs.put(claim.frame_key, b"half a frame")
    time.sleep(0.1)
    run_audit(audit_id)
    assert load(engine, audit_id).frame_key == f"frames/{audit_id}-2.parquet"
    assert not blobs.exists(claim.frame_key)


def test_of_many_claims_one_succeeds(engine: Engine, new_audit: Callable[[], str]) -> None:
    audit_id = new_audit()

    def claim(_number: int) -> bool:
        with engine.begin() as connection:
            found = claim_audit(connection, audit_id, lease_seconds=30, max_starts=3)
        return found is not None

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(40))) == 1
    assert load(engine, audit_id).starts == 1


def test_a_commit_whose_answer_was_lost_is_not_taken_for_a_lost_lease(
    engine: Engine,
    blobs: BlobStore,
    new_audit: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every step is committed, and then done once more as if nobody had heard of it."""

    def transact_twice(engine: Engine, step: Callable[[Connection], Any]) -> Any:
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


def test_a_rerun_replaces_the_report(engine: Engine, new_audit: Callable[[], str]) -> None:
    """Queued once more, as an administrator may ask."""
    audit_id = new_audit()
    run_audit(audit_id)
    before = document(engine, audit_id)
    with engine.begin() as connection:
        connection.execute(
            update(Audit).where(Audit.id == audit_id).values(status="queued", starts=0)
        )
    run_audit(audit_id)
    assert load(engine, audit_id).status == "done"
    assert document(engine, audit_id) == before
