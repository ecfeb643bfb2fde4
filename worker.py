"""`run_audit`: the only module that uses both the service and the detectors. Nothing imports it.

It runs in a separate process that `service.jobs.process` forks for each audit. The forking parent
imports this module as well, so it must not import Polars before an audit runs.
"""

from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, delete, insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import configure_mappers

import detectors
from detectors.contract import Finding, Report
from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats import read_stored
from service.config import Config
from service.core.blobs import BlobStore
from service.core.counters import ATTEMPTS, timed
from service.core.db import make_engine
from service.core.logs import get_logger
from service.jobs.lease import HeldLease, LeaseLostError
from service.jobs.queues import AuditQueues
from service.jobs.stopping import RequeueOnStop
from service.jobs.transactions import transact
from service.mail.report_ready import post_report_ready
from service.models.audits.audits import FindingRow, ReportRow
from service.models.audits.leases import (
    Claim,
    claim_audit,
    fail_audit,
    finish_audit,
    gave_up_message,
    is_finished,
    retry_audit,
    save_valid_pct,
)

if TYPE_CHECKING:
    from detectors.frames import UsageLog

# Imports of an audit that start no threads; importing genai-prices takes longer than an audit.
_SAFE_TO_INHERIT: Final = ("genai_prices", "genai_prices.data", "narwhals.stable.v2", "psycopg2")

_log = get_logger(__name__)


def prepare() -> None:
    """Import the modules once in the forking parent, instead of again in every audit."""
    for module in _SAFE_TO_INHERIT:
        import_module(module)
    configure_mappers()


def run_audit(audit_id: str) -> None:
    """Claim the audit and process it, unless another worker holds it or it has ended.

    Raise any unexpected error, after queueing the audit for a retry.
    """
    config = Config.load()
    engine = make_engine(config)
    try:
        # The claim isn't durable, which saves a disk write: if a database crash undoes it, the
        # fence keeps this attempt from publishing.
        claim = transact(
            engine,
            lambda connection: claim_audit(
                connection,
                audit_id,
                lease_seconds=config.lease_seconds,
                max_attempts=config.max_starts,
            ),
            is_durable=False,
        )
        if claim is None:
            _log.info("audit_not_claimed", audit_id=audit_id)
            return
        _run(config, engine, claim)
    finally:
        engine.dispose()


def _run(config: Config, engine: Engine, claim: Claim) -> None:
    blobs = BlobStore.from_url(config.storage_url)
    log = _log.bind(audit_id=claim.audit_id, attempt=claim.attempt)
    try:
        with (
            HeldLease(engine, claim, config.lease_seconds) as lease,
            RequeueOnStop(config, engine, claim),
        ):
            report = _audit(engine, blobs, claim, lease)
            with timed("publish"):
                mail_id = transact(engine, lambda connection: _publish(connection, claim, report))
    except LeaseLostError:
        ATTEMPTS.labels("lease_lost").inc()
        log.warning("lease_lost")
        blobs.delete(claim.frame_key)
    except DetectorError as error:
        ATTEMPTS.labels("refused").inc()
        log.info("audit_refused", error_type=type(error).__name__)
        message = str(error)
        transact(engine, lambda connection: fail_audit(connection, claim, message))
    except Exception:
        ATTEMPTS.labels("broken").inc()
        if _retry_or_fail(engine, claim, config.max_starts):
            _delete_frames(blobs, [claim.frame_key])
        raise
    else:
        ATTEMPTS.labels("done").inc()
        log.info("audit_done", records=report.audit.records)
        if mail_id is not None:
            AuditQueues.from_config(config).enqueue_mail(mail_id)
        _delete_frames(blobs, claim.earlier_frame_keys)


def _audit(engine: Engine, blobs: BlobStore, claim: Claim, lease: HeldLease) -> Report:
    """Return the report after storing its calls as a frame."""
    # Importing Polars starts threads, which the forking parent must not have.
    from detectors.frames import write_log

    with timed("read"):
        log = _read(blobs, claim)
    save = partial(save_valid_pct, claim=claim, valid_pct=log.valid_pct)
    if not transact(engine, save, is_durable=False):
        raise LeaseLostError
    with timed("audit"):
        report = detectors.audit(log)
    lease.check()
    with timed("store"), blobs.writer(claim.frame_key) as file:
        write_log(log, file)
    return report


def _read(blobs: BlobStore, claim: Claim) -> "UsageLog":
    """Read the stored records or, if they were purged, the frame of an earlier attempt."""
    from detectors.frames import from_chunks, read_log

    if not claim.is_raw_purged:
        with blobs.open(claim.blob_key) as file:
            return from_chunks(read_stored(file))
    if claim.published_frame_key is None:
        raise UnreadableLogError("the stored records were deleted before they were audited")
    with blobs.open(claim.published_frame_key) as file:
        return read_log(file)


def _publish(connection: Connection, claim: Claim, report: Report) -> str | None:
    """Publish the report and its findings, or raise `LeaseLostError` and write nothing.

    Return the ID of the notification mail, if there is one to enqueue.
    """
    if finish_audit(connection, claim, _totals(claim, report)):
        _replace_report(connection, claim.audit_id, report)
        return post_report_ready(connection, claim.audit_id, report)
    if not is_finished(connection, claim.audit_id, claim.frame_key):
        raise LeaseLostError
    return None


def _totals(claim: Claim, report: Report) -> dict[str, Any]:
    audit = report.audit
    return {
        "frame_key": claim.frame_key,
        "records": audit.records,
        "valid_pct": audit.valid_pct,
        "observed_days": audit.observed_days,
        "total_spend_usd": audit.total_spend_usd,
        "projected_spend_usd": audit.projected_spend_usd,
        "projected_savings_usd": audit.projected_savings_usd,
        "savings_pct": audit.savings_pct,
        "equiv_spend": audit.equiv_spend,
        "findings_count": len(report.findings),
    }


def _replace_report(connection: Connection, audit_id: str, report: Report) -> None:
    for table in (FindingRow, ReportRow):
        connection.execute(delete(table).where(table.audit_id == audit_id))
    rows = [
        _finding_row(audit_id, rank, finding) for rank, finding in enumerate(report.findings, 1)
    ]
    if rows:
        connection.execute(insert(FindingRow), rows)
    connection.execute(insert(ReportRow).values(audit_id=audit_id, document=report.to_json()))


def _finding_row(audit_id: str, rank: int, finding: Finding) -> dict[str, Any]:
    columns = FindingRow.__table__.columns.keys()
    own = {"audit_id": audit_id, "rank": rank}
    return own | {name: getattr(finding, name) for name in columns if name not in own}


def _retry_or_fail(engine: Engine, claim: Claim, max_attempts: int) -> bool:
    """Queue another attempt, or fail the audit after the last one.

    Return False if the claim no longer holds the audit, which may even be published.
    """

    def end(connection: Connection) -> bool:
        if claim.counted_attempt < max_attempts:
            return retry_audit(connection, claim)
        return fail_audit(connection, claim, gave_up_message(max_attempts))

    try:
        return transact(engine, end)
    except SQLAlchemyError as error:
        # The audit is retried when its lease expires.
        _log.warning("audit_not_retried", error_type=type(error).__name__)
        return False


def _delete_frames(blobs: BlobStore, keys: list[str]) -> None:
    for key in keys:
        with suppress(OSError):
            blobs.delete(key)
