"""What administrators do, to any account: each act, and its line in the log of acts.

An act that is refused raises before anything is changed. Callers commit; blobs and queues are
theirs, too.
"""

from decimal import Decimal

from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audits import DONE, FAILED, QUEUED, Audit, ReportRow
from service.models.base import new_id, utc_now
from service.models.billing.payments import Payment
from service.models.identity.accounts import COMP
from service.models.identity.early_access import EarlyAccess, list_early_access
from service.models.operations.admin_actions import (
    EXPORT,
    MARK_PAID,
    PURGE,
    RERUN,
    Via,
    note_admin_action,
)
from service.payments import ManualPayment, mark_paid
from service.reports.kept_pdf import get_pdf

_NOWHERE = "No audit has this id."


def get_any_pdf(session: Session, blobs: BlobStore, audit_id: str) -> bytes:
    """The report of an audit as PDF."""
    audit, row = session.get(Audit, audit_id), session.get(ReportRow, audit_id)
    if audit is None:
        raise NotFoundError(_NOWHERE)
    if row is None:
        raise NotFoundError("This audit has no report.")
    return get_pdf(blobs, audit, row.document, row.created_at)


def mark_purged(session: Session, audit_id: str, via: Via) -> tuple[Audit, bool]:
    """Note that the raw upload is no more, and whether that is new; delete the blob after commit.

    In this order, since a row may name nothing that is gone. A blob that a crash left in between
    goes with the orphans.
    """
    audit = _get_ended(session, audit_id, "purged")
    is_new = audit.raw_purged_at is None
    audit.raw_purged_at = audit.raw_purged_at or utc_now()
    note_admin_action(session, via, PURGE, audit.id, {"is_repeat": not is_new})
    return audit, is_new


def queue_rerun(session: Session, blobs: BlobStore, audit_id: str, via: Via) -> Audit:
    """Queue a new attempt from the raw upload or, if that is purged, from the record frame.

    It may be started as often as the first one. The report of before stays until it is replaced.
    """
    audit = _get_ended(session, audit_id, "run again")
    source_key = audit.blob_key if audit.raw_purged_at is None else audit.frame_key
    if source_key is None or not blobs.exists(source_key):
        raise InvalidRequestError(
            "There is nothing left to run this audit from: its raw upload is purged, "
            "and it has no record frame."
        )
    note_admin_action(session, via, RERUN, audit.id, {"source": source_key.partition("/")[0]})
    audit.status, audit.uncounted_attempts = QUEUED, audit.attempts
    audit.enqueued_at = audit.started_at = audit.finished_at = None
    audit.error = audit.valid_pct = None
    return audit


def record_payment(session: Session, told: ManualPayment, via: Via) -> tuple[Payment, bool]:
    """The payment that an administrator vouches for, and whether it is new."""
    payment, is_new = mark_paid(session, told)
    details = {
        "provider": told.provider,
        "reference": told.reference,
        "kind": told.kind,
        "plan": told.plan,
        "amount": str(told.amount),
        "currency": told.currency,
        "is_repeat": not is_new,
    }
    note_admin_action(session, via, MARK_PAID, told.email, details)
    return payment, is_new


def grant_credits(session: Session, email: str, count: int, via: Via) -> None:
    """Give an address free credits: one payment of 0 and one admin action for each of them."""
    for _ in range(count):
        gift = ManualPayment(
            email=email,
            provider=COMP,
            reference=f"gift-{new_id()}",
            amount=Decimal(0),
            currency="USD",
        )
        record_payment(session, gift, via)


def export_early_access(session: Session, via: Via) -> list[EarlyAccess]:
    """Everybody who asked; that the list was taken is an act, too."""
    rows = list(list_early_access(session))
    note_admin_action(session, via, EXPORT, "early_access", {"rows": len(rows)})
    return rows


def _get_ended(session: Session, audit_id: str, done_to_it: str) -> Audit:
    """The audit with its row locked; refused while somebody may be reading its upload."""
    audit = session.get(Audit, audit_id, with_for_update=True, populate_existing=True)
    if audit is None:
        raise NotFoundError(_NOWHERE)
    if audit.status not in (DONE, FAILED):
        raise InvalidRequestError(
            f"This audit is {audit.status}; it can be {done_to_it} once it is done or failed."
        )
    return audit
