"""The end of an attempt that has a report: publish it, wake the senders, delete old frames."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

from sqlalchemy import Connection

from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.core.telemetry.counters import ATTEMPTS, AUDITED_RECORDS
from service.jobs.claiming import Tools
from service.jobs.lease import LeaseLostError
from service.jobs.transactions import transact
from service.mail.report_ready import Posted, post_report_ready
from service.models.audits.leases import Claim, is_finished, postpone_audit
from service.models.audits.results import Result, publish_reports
from service.models.calls.account_audits import DEFAULT_WINDOW, note_imports
from service.models.calls.call_files import NewImport, add_imports
from service.models.calls.traffic import replace_traffic
from service.models.imports.copies import drop_copies
from service.operations.findings.tracking import AuditedFindings, track_findings

_log = get_logger(__name__)


def publish(connection: Connection, results: Sequence[Result]) -> dict[str, Posted]:
    """Publish the reports whose claims still hold their audits.

    Return the mail and the notices of each published audit, to enqueue after the commit.
    """
    held = publish_reports(connection, results)
    # What the published audits add to the calls of their accounts.
    published = [
        NewImport(
            account_id=result.claim.account_id,
            audit_id=result.claim.audit_id,
            import_id=PurePosixPath(result.claim.frame_key).stem,
            blob_key=result.claim.frame_key,
            content_hash=result.frame.content_hash,
            first_day=result.first_day,
            last_day=result.last_day,
            calls=result.frame.calls,
            bytes=result.frame.size,
            spend=result.spend,
            file_hash=result.claim.content_hash,
            priced_with=result.priced_with,
        )
        for result in results
        if result.claim in held and result.frame is not None
    ]
    imports = drop_copies(connection, published)
    add_imports(connection, imports)
    for result in results:
        claim, window = result.claim, result.window
        if claim in held and claim.window_days == DEFAULT_WINDOW and window is not None:
            own = (claim.account_id, claim.audit_id)
            track_findings(connection, AuditedFindings(*own, window.report, window.finding_days))
            replace_traffic(connection, claim.account_id, window.traffic)
    note_imports(connection, [each.account_id for each in imports if each.calls])
    posted: dict[str, Posted] = {}
    # In the order of accounts, whose locks another process may be taking at the same time.
    for result in sorted(results, key=lambda each: each.claim.account_id):
        audit_id = result.claim.audit_id
        if result.claim in held:
            posted[audit_id] = post_report_ready(connection, audit_id, result.report)
        elif is_finished(connection, result.claim):
            posted[audit_id] = Posted()
    return posted


def finish(tools: Tools, result: Result, posted: Mapping[str, Posted]) -> None:
    """Do what follows the commit of `publish`, whose result this is.

    Raise `LeaseLostError` if the claim had lost its audit.
    """
    claim = result.claim
    if claim.audit_id not in posted:
        raise LeaseLostError
    ATTEMPTS.labels("done").inc()
    records = result.report.audit.records
    scope = "import" if claim.window_days is None else "account"
    AUDITED_RECORDS.labels(scope).inc(records)
    _log.info("audit_done", audit_id=claim.audit_id, attempt=claim.attempt, records=records)
    mail_id, delivery_ids = posted[claim.audit_id]
    tools.queues.enqueue_mail(mail_id)
    tools.queues.enqueue_notices(delivery_ids)
    delete_frames(tools.blobs, claim.earlier_frame_keys)


def abandon(tools: Tools, claim: Claim, *, was_away: bool) -> None:
    """Leave the audit to the worker that holds it now.

    If the database was away, so that the lease couldn't be renewed, this was no attempt.
    """
    if was_away:
        transact(tools.engine, partial(postpone_audit, claim=claim))
    ATTEMPTS.labels("lease_lost").inc()
    _log.warning("lease_lost", audit_id=claim.audit_id, attempt=claim.attempt)
    delete_frames(tools.blobs, [claim.frame_key])


def delete_frames(blobs: BlobStore, keys: Iterable[str]) -> None:
    """Delete frames that no row names, up to one that can't be deleted.

    What is left is removed as orphans.
    """
    with suppress(OSError):
        for key in keys:
            blobs.delete(key)
