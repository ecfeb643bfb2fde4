"""Report documents are packed in the database, and read the same."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from detectors.contract import Report
from service.config import Config
from service.core.blobs import BlobStore
from service.core.packing import pack, unpack
from service.models.operations import retention
from service.models.operations.retention import pack_reports
from service.operations.maintenance.housekeeping import Housekeeping
from service.reports.sample import get_sample_report
from tests.worker.support.stored import document, load
from worker import run_audit

NOW = timedelta(0)


def _pack(engine: Engine, after: timedelta = NOW) -> int:
    with engine.begin() as connection:
        return pack_reports(connection, after)


def _stored_bytes(engine: Engine, audit_id: str) -> int:
    query = text("SELECT length(document) FROM reports WHERE audit_id = :id")
    with engine.connect() as connection:
        return int(connection.scalar(query, {"id": audit_id}) or 0)


def _pack_all(engine: Engine) -> None:
    while _pack(engine):
        pass


def test_a_packed_document_is_small_and_reads_byte_for_byte_the_same(
    engine: Engine, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    before = document(engine, audit_id) or b""
    assert _stored_bytes(engine, audit_id) == len(before)
    assert _pack(engine, timedelta(hours=1)) == 0  # a previous release may still read it
    _pack_all(engine)
    assert document(engine, audit_id) == before
    # If this fails, the words of reports have changed: add a dictionary, and keep the others.
    assert _stored_bytes(engine, audit_id) < len(before) * 0.1
    assert _pack(engine) == 0
    # A rerun of a packed report is packed again.
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE audits SET status = 'queued' WHERE id = :i"), {"i": audit_id}
        )
    run_audit(audit_id)
    assert load(engine, audit_id).attempts == 2
    assert document(engine, audit_id) == before
    assert _pack(engine) == 1
    assert document(engine, audit_id) == before


def test_documents_are_packed_in_batches(
    engine: Engine, new_audit: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_PACKED_AT_ONCE", 2)
    for _ in range(3):
        run_audit(new_audit())
    assert [_pack(engine), _pack(engine), _pack(engine)] == [2, 1, 0]


@pytest.mark.parametrize("size", [0, 1, 40_000])
def test_documents_of_every_size_are_read_whole(size: int) -> None:
    plain = b'{"a":"' + bytes(number % 251 for number in range(size)).hex().encode() + b'"}'
    assert unpack(plain) == plain
    assert unpack(pack(plain)) == plain


def test_the_sample_report_is_read_whole() -> None:
    sample = get_sample_report()
    packed = pack(sample)
    assert unpack(packed) == sample
    assert len(packed) < len(sample) * 0.2
    assert Report.from_json(unpack(packed)) == Report.from_json(sample)


def test_housekeeping_packs_an_hour_after_its_start(
    config: Config, engine: Engine, blobs: BlobStore, new_audit: Callable[[], str]
) -> None:
    audit_id = new_audit()
    run_audit(audit_id)
    with engine.begin() as connection:
        published = text("UPDATE reports SET created_at = now() - interval '2 hours'")
        connection.execute(published)

    def keep_house(housekeeping: Housekeeping) -> bool:
        with engine.connect() as connection:
            for _ in range(20):
                housekeeping.take_turn(connection)
            query = text("SELECT is_packed FROM reports WHERE audit_id = :id")
            return bool(connection.scalar(query, {"id": audit_id}))

    assert not keep_house(Housekeeping(config, blobs))
    earlier = Housekeeping(config, blobs)
    earlier._began_at -= 3_601
    assert keep_house(earlier)
