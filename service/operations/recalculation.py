"""Queue a finished audit again, at today's prices and settings; it takes no credit."""

from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audits import DONE, FAILED, QUEUED, Audit, find_audit

NO_AUDIT = "There is no audit with this ID."


def recalculate(session: Session, blobs: BlobStore, account_id: str, audit_id: str) -> Audit:
    """Queue an audit of this account again. Its report stays if that fails."""
    if find_audit(session, account_id, audit_id) is None:
        raise NotFoundError(NO_AUDIT)
    audit, _source_key = queue_again(session, blobs, audit_id)
    return audit


def queue_again(session: Session, blobs: BlobStore, audit_id: str) -> tuple[Audit, str]:
    """Queue any audit again; return it and the blob that it is audited from.

    That is the raw upload or, if that is purged, the record frame. The count of attempts starts
    over.
    """
    audit = get_ended(session, audit_id, "rerun")
    source_key = audit.rerun_key
    if source_key is None or not blobs.exists(source_key):
        raise InvalidRequestError(
            "This audit can't be rerun: its raw upload was purged and it has no record frame."
        )
    if audit.status == FAILED:
        audit.valid_pct = None  # a report keeps its own
    queue_ended(audit)
    return audit, source_key


def queue_ended(audit: Audit) -> None:
    """Queue an ended audit, whose row is locked, with a new count of attempts."""
    audit.status, audit.uncounted_attempts = QUEUED, audit.attempts
    audit.outages, audit.resume_at = 0, None
    audit.enqueued_at = audit.started_at = audit.finished_at = audit.error = None


def get_ended(session: Session, audit_id: str, action: str) -> Audit:
    """Return the audit with its row locked; raise while a worker may be reading its upload."""
    audit = session.get(Audit, audit_id, with_for_update=True, populate_existing=True)
    if audit is None:
        raise NotFoundError(NO_AUDIT)
    if audit.status not in (DONE, FAILED):
        raise InvalidRequestError(
            f"This audit is {audit.status}. It can be {action} once it is done or failed."
        )
    return audit
