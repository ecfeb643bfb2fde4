"""One intake for batches and files: check, store the blob, add the row; the view commits.

A blob is on disk before its row is committed, and it is deleted if no row will name it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import Final

from flask import g
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from detectors.contract import UsageRecord, UsageRecordV2
from detectors.formats import encode_chunk, encode_records, read_chunks
from service.core.logs import get_logger
from service.core.telemetry.counters import ACCEPTED_RECORDS
from service.core.telemetry.traces import trace_context
from service.errors import InvalidRequestError
from service.models.audits.audits import (
    INGEST,
    UPLOAD,
    Audit,
)
from service.models.audits.blob_keys import raw_key
from service.models.audits.idempotency import KeyTakenError, add_audit
from service.models.base import Executor, new_id
from service.models.billing.credits import NoCreditError, claim_credit
from service.web.auth.callers import current_caller
from service.web.auth.caps import check_place, count_stored
from service.web.http.current import (
    connect,
    current_blobs,
    current_config,
    current_session_factory,
    get_session,
    sleep_without_slot,
)
from service.web.http.error_responses import storage_needed
from service.web.intake.gates import KEY_NAMESPACES, Admission, payment_required
from service.web.intake.processor_time import ProcessorTime, measure_file
from service.web.intake.receiving import ReceivedFile, TokenCheck, received_file
from service.web.intake.upload_turns import upload_turns

# As fast as larger chunks, and several uploads at once stay small.
CHUNK_BYTES: Final = 128 * 1024

_log = get_logger(__name__)


@contextmanager
def stored_batch(
    records: Sequence[UsageRecord], key: str | None
) -> Iterator[tuple[Audit, Executor]]:
    """Store checked records and add their audit, for the view to commit the connection here.

    Raise `KeyTakenError` for a replayed key.
    """
    audit = _new_audit(INGEST)
    audit.client = current_caller().client
    found = {record.environment for record in records if type(record) is UsageRecordV2}
    audit.environment = found.pop() if len(found) == 1 else None  # only where all have the same
    audit.records, encoded = len(records), encode_records(records)
    audit.raw_bytes = len(encoded)
    with storage_needed():
        current_blobs().put(audit.blob_key, encoded)
    with _added(audit, key) as connection:
        yield audit, connection
    _count(audit)


@contextmanager
def stored_upload(admission: Admission, check_token: TokenCheck | None = None) -> Iterator[Audit]:
    """Receive and store the request's file and add its audit, for the view to commit here.

    Raise `KeyTakenError` for a replayed key with the same file. `check_token` checks the CSRF token
    that a form sends before the file.
    """
    audit = _receive(admission, check_token)
    with _delete_blob_unless_committed(audit):
        yield audit
    _count(audit)


def _count(audit: Audit) -> None:
    ACCEPTED_RECORDS.labels(audit.source).inc(audit.records)
    count_stored(audit.account_id, audit.raw_bytes or 0)


def _receive(admission: Admission, check_token: TokenCheck | None) -> Audit:
    key, earlier = admission
    spent = measure_file()
    with received_file(check_token, spent.check) as upload:
        g.upload_mapping = upload.mapping  # the form shows it again
        if earlier is None:
            try:
                with upload_turns.turn(current_caller().account_id, sleep=sleep_without_slot):
                    audit = _store_file(upload, spent)
                return _add(audit, key, upload.fingerprint)
            except KeyTakenError as taken:  # by a request that ran at the same time
                earlier = taken.earlier
        if earlier.body_hash != upload.fingerprint:
            raise InvalidRequestError("This Idempotency-Key was already used for a different file.")
        raise KeyTakenError(earlier)


def _new_audit(source: str) -> Audit:
    """Return an audit with its ID and the key of its raw blob, which is stored before its row."""
    audit_id, account_id = new_id(), current_caller().account_id
    blob_key, trace = raw_key(audit_id), trace_context()
    own = {"account_id": account_id, "source": source, "traceparent": trace}
    return Audit(id=audit_id, blob_key=blob_key, **own)


def _store_file(upload: ReceivedFile, spent: ProcessorTime) -> Audit:
    """Check the file and store its re-encoding in one pass.

    The blob gets its name after the last line has passed. Raise a `DetectorError`, with nothing
    stored, for a file that breaks the contract, has an unknown format, or is too large unpacked.
    """
    audit, max_bytes = _new_audit(UPLOAD), current_config().max_upload_bytes
    audit.size_bytes, audit.records, audit.raw_bytes = upload.size, 0, 0
    audit.label, content_hash = upload.label or None, sha256()
    with storage_needed(), current_blobs().writer(audit.blob_key) as blob:
        for chunk in read_chunks(
            upload.file,
            chunk_bytes=CHUNK_BYTES,
            max_bytes=max_bytes,
            advance=spent.check,
            mapping=upload.mapping,
        ):
            encoded = encode_chunk(chunk)
            blob.write(encoded)
            content_hash.update(encoded)
            audit.raw_bytes += len(encoded)
            spent.check()  # blocks that were read to detect the format are checked later
            audit.records += chunk.rows - len(chunk.invalid)
    audit.content_hash = content_hash.digest()
    return audit


@contextmanager
def _added(audit: Audit, key: str | None) -> Iterator[Executor]:
    """Insert a batch's audit and its key, in a transaction that the block commits."""
    with ExitStack() as stack:
        with _delete_blob_on_error(audit.blob_key):
            connection = stack.enter_context(connect())
            add_audit(connection, audit, KEY_NAMESPACES[INGEST], key)
            check_place(connection, audit.account_id)
        with _delete_blob_unless_committed(audit):
            yield connection


def _add(audit: Audit, key: str | None, body_hash: bytes) -> Audit:
    """Insert an upload's audit and its key, and claim its credit, in the view's transaction."""
    session = get_session()
    with _delete_blob_on_error(audit.blob_key):
        add_audit(session, audit, KEY_NAMESPACES[UPLOAD], key, body_hash=body_hash)
        check_place(session, audit.account_id)
        try:
            claim_credit(session, audit.account_id, audit.id)
        except NoCreditError:
            raise payment_required() from None
    return audit


@contextmanager
def _delete_blob_on_error(blob_key: str) -> Iterator[None]:
    """Delete the blob if the block fails, because no row will ever name it."""
    try:
        yield
    except BaseException:
        _delete_blob(blob_key)
        raise


@contextmanager
def _delete_blob_unless_committed(audit: Audit) -> Iterator[None]:
    """Delete the blob if the commit failed; keep it if the commit may have happened.

    The answer to a commit can be lost after the commit took effect.
    """
    try:
        yield
    except DBAPIError:
        is_absent = False
        with suppress(SQLAlchemyError), current_session_factory()() as session:
            is_absent = session.get(Audit, audit.id) is None
        if is_absent:
            _delete_blob(audit.blob_key)
        raise


def _delete_blob(blob_key: str) -> None:
    try:
        current_blobs().delete(blob_key)
    except OSError as error:
        # The request fails with its first error; the sweeper deletes an orphan blob later.
        _log.warning("blob_not_deleted", blob_key=blob_key, exc_info=error)
