"""The stored form of an upload gives exactly the same report as the file itself."""

import gzip
import json
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, update
from sqlalchemy.orm import Session

import detectors
from detectors.contract import UsageRecord
from detectors.formats import encode_chunk, read_chunks
from detectors.report import account
from service.core.blobs import BlobStore
from service.models import Audit, Credit
from service.models.audits.leases import fail_exhausted
from service.models.base import utc_now
from service.models.billing.credits import claim_credit, count_free_credits
from service.operations.recalculation import queue_again
from tests.detectors.reference import logs
from tests.detectors.reference.traffic import draw_log
from tests.service.support.scenes import add_account
from tests.worker.support.promises import sampled
from tests.worker.support.stored import document, load
from worker import run_audit

Writer = Callable[[Iterable[UsageRecord]], bytes]


def _as_array(records: Iterable[UsageRecord]) -> bytes:
    return b"[" + b",".join(logs.as_messages(records).splitlines()) + b"]"


def _as_gzip(records: Iterable[UsageRecord]) -> bytes:
    return gzip.compress(logs.as_responses(records))


FORMATS: tuple[Writer, ...] = (*logs.FORMATS, _as_array, _as_gzip)
# One bad row for every so many good ones.
EVERY = 4


def _with_bad_rows(log: bytes) -> bytes:
    """The log with rows between its own that are invalid for several reasons."""
    if log.startswith(b"\x1f\x8b"):
        return gzip.compress(_with_bad_rows(gzip.decompress(log)))
    if log.startswith(b"["):
        return b"[" + b",".join(_mixed(json_items(log), JSON_ROWS)) + b"]"
    if log.startswith(b"{"):
        return b"\n".join(_mixed(log.splitlines(), JSON_ROWS))
    header, *rows = log.splitlines()
    commas = b"," * header.count(b",")
    return b"\n".join([header, *_mixed(rows, [b"x" + commas, b"x", commas])])


JSON_ROWS = [
    b'{"model":"gpt-5.4","created":1e99,"usage":{}}',
    b'{"id":7}',
    b"7",
    b'{"model":"gpt-5.4","ts":"never","usage":{}}',
]


def json_items(log: bytes) -> list[bytes]:
    return [json.dumps(item).encode() for item in json.loads(log)]


def _mixed(rows: list[bytes], bad: list[bytes]) -> list[bytes]:
    mixed = []
    for number, row in enumerate(rows):
        mixed += [bad[number // EVERY % len(bad)], row] if number % EVERY == 3 else [row]
    return mixed


@pytest.fixture
def account_id(engine: Engine) -> str:
    with Session(engine) as session:
        account = add_account(session, email="worker@example.com")
        session.commit()
        return account.id


@pytest.fixture
def upload(engine: Engine, blobs: BlobStore, account_id: str) -> Callable[[bytes], str]:
    """Stores a file as an upload does, and queues its audit; returns its id."""

    def store(file: bytes) -> str:
        with Session(engine) as session:
            audit = Audit(account_id=account_id, source="upload", blob_key="")
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            with blobs.writer(audit.blob_key) as stored:
                for chunk in read_chunks(BytesIO(file), chunk_bytes=20_000):
                    stored.write(encode_chunk(chunk))
            session.commit()
            return audit.id

    return store


def _rerun(engine: Engine, audit_id: str, **changes: object) -> None:
    with engine.begin() as connection:
        queued = {"status": "queued", "uncounted_attempts": Audit.attempts, **changes}
        connection.execute(update(Audit).where(Audit.id == audit_id).values(queued))
    run_audit(audit_id)


@pytest.mark.parametrize(
    "write", sampled(FORMATS, len(FORMATS)), ids=lambda write: write.__name__.strip("_")
)
def test_an_upload_is_reported_on_as_its_file_is_even_after_the_purge(
    engine: Engine, blobs: BlobStore, upload: Callable[[bytes], str], tmp_path: Path, write: Writer
) -> None:
    records = logs.writable(draw_log(0), write)
    file = tmp_path / "upload.log"
    file.write_bytes(_with_bad_rows(write(records)))
    report = detectors.audit(detectors.read(file).received(utc_now()))
    assert report.invalid_rows.count > 100
    assert len(report.invalid_rows.reasons) > 1
    expected = report.to_json()

    audit_id = upload(file.read_bytes())
    run_audit(audit_id)
    assert document(engine, audit_id) == expected
    _rerun(engine, audit_id)
    assert document(engine, audit_id) == expected

    blobs.delete(load(engine, audit_id).blob_key)
    for start in (3, 4):
        _rerun(engine, audit_id, raw_purged_at=func.now())
        assert document(engine, audit_id) == expected
        audit = load(engine, audit_id)
        assert (audit.status, audit.frame_key) == ("done", f"frames/{audit_id}-{start}.parquet")
        assert list(blobs.list_old("frames", -60)) == [audit.frame_key]


def test_the_frame_of_an_earlier_run_stays_while_reruns_fail(
    engine: Engine,
    blobs: BlobStore,
    upload: Callable[[bytes], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit_id = upload(logs.as_responses(draw_log(0)))
    run_audit(audit_id)
    expected, kept = document(engine, audit_id), load(engine, audit_id).frame_key
    with monkeypatch.context() as broken:
        broken.setattr("service.operations.publishing.publish_reports", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            _rerun(engine, audit_id, raw_purged_at=func.now())
    assert list(blobs.list_old("frames", -60)) == [kept]
    run_audit(audit_id)
    assert document(engine, audit_id) == expected


def test_what_was_purged_before_any_audit_ends_with_a_clear_message(
    engine: Engine, upload: Callable[[bytes], str]
) -> None:
    audit_id = upload(logs.as_responses(draw_log(0)))
    _rerun(engine, audit_id, raw_purged_at=func.now())
    audit = load(engine, audit_id)
    assert (audit.status, audit.attempts) == ("failed", 1)
    assert "deleted before they were audited" in (audit.error or "")


# Credits

MOSTLY_BAD = b"\n".join([logs.as_responses(draw_log(0)[:1]).strip(), *JSON_ROWS])


@pytest.fixture
def paid(engine: Engine, account_id: str) -> Callable[[str], None]:
    """Gives the account a credit and claims it for an audit."""

    def pay(audit_id: str) -> None:
        with Session(engine) as session:
            session.add(Credit(account_id=account_id))
            session.flush()
            claim_credit(session, account_id, audit_id)
            session.commit()

    return pay


def _free_credits(engine: Engine, account_id: str) -> int:
    with Session(engine) as session:
        return count_free_credits(session, account_id)


def test_too_few_valid_rows_fail_the_audit_and_return_its_credit_once(
    engine: Engine, account_id: str, upload: Callable[[bytes], str], paid: Callable[[str], None]
) -> None:
    audit_id = upload(MOSTLY_BAD)
    paid(audit_id)
    run_audit(audit_id)
    audit = load(engine, audit_id)
    assert (audit.status, audit.valid_pct) == ("failed", 20.0)
    assert (audit.error or "").startswith("Only 20.0% of the rows could be read")
    assert _free_credits(engine, account_id) == 1
    _rerun(engine, audit_id)
    assert load(engine, audit_id).status == "failed"
    assert _free_credits(engine, account_id) == 1


def test_an_audit_that_is_done_keeps_its_credit(
    engine: Engine, account_id: str, upload: Callable[[bytes], str], paid: Callable[[str], None]
) -> None:
    audit_id = upload(logs.as_responses(draw_log(0)))
    paid(audit_id)
    run_audit(audit_id)
    assert load(engine, audit_id).status == "done"
    assert _free_credits(engine, account_id) == 0


def test_an_audit_that_fails_three_times_returns_its_credit_after_the_last(
    engine: Engine,
    account_id: str,
    upload: Callable[[bytes], str],
    paid: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit_id = upload(logs.as_responses(draw_log(0)))
    paid(audit_id)
    monkeypatch.setattr(account, "audit_imports", lambda *_terms: 1 / 0)
    for free in (0, 0, 1):
        with pytest.raises(ZeroDivisionError):
            run_audit(audit_id)
        assert _free_credits(engine, account_id) == free


def test_the_sweeper_returns_the_credit_of_an_audit_without_attempts_left_once(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    upload: Callable[[bytes], str],
    paid: Callable[[str], None],
) -> None:
    audit_id = upload(logs.as_responses(draw_log(0)))
    paid(audit_id)
    for attempts in (3, 6):
        with engine.begin() as connection:
            used_up = {"status": "processing", "attempts": attempts, "lease_expires_at": func.now()}
            connection.execute(update(Audit).where(Audit.id == audit_id).values(used_up))
        for expected in ([audit_id], []):
            with engine.begin() as connection:
                assert fail_exhausted(connection, 3) == expected
            assert _free_credits(engine, account_id) == 1
        with Session(engine) as session:
            queue_again(session, blobs, audit_id)
            assert fail_exhausted(session.connection(), 3) == []
            session.commit()


def test_rows_of_an_upload_that_are_no_calls_are_reported_even_after_the_purge(
    engine: Engine, blobs: BlobStore, upload: Callable[[bytes], str]
) -> None:
    row = {
        **{"request_id": "r0", "call_type": "acompletion", "startTime": "2026-06-01T12:00:00Z"},
        **{"model": "gpt-4o", "custom_llm_provider": "openai"},
        **{"prompt_tokens": 9, "completion_tokens": 2},
    }
    hits = [row | {"request_id": f"r{n}", "cache_hit": "True"} for n in range(3)]
    failed = row | {"request_id": "r9", "status": "failure"}
    rows = [row, *hits, failed, failed | {"request_id": "r8"}]
    audit_id = upload(b"\n".join(json.dumps(each).encode() for each in rows))
    run_audit(audit_id)
    expected = [
        {"reason": "answered from a gateway's cache, so not billed", "rows": 3},
        {"reason": "failed, so not billed", "rows": 2},
    ]
    assert json.loads(document(engine, audit_id) or b"")["data_quality"]["skipped_rows"] == expected

    blobs.delete(load(engine, audit_id).blob_key)
    _rerun(engine, audit_id, raw_purged_at=func.now())
    assert json.loads(document(engine, audit_id) or b"")["data_quality"]["skipped_rows"] == expected
