"""Admin actions on any account, each with its line in the log of admin actions.

A rejected action raises before it changes anything. Callers commit, delete blobs and enqueue.
"""

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.errors import InvalidRequestError, NotFoundError
from service.jobs.queues import AuditQueues
from service.mail.security_notice import post_notice
from service.models.audits.audits import ACCOUNT, FAILED, Audit, ReportRow
from service.models.base import new_id, utc_now
from service.models.billing.payments import Payment
from service.models.calls.account_audits import queue_account_audit
from service.models.identity.accounts import COMP, Account, get_account
from service.models.identity.early_access import EarlyAccess, list_early_access
from service.models.identity.passkeys import end_pending_sign_ins, remove_second_factor
from service.models.identity.security_events import EventKind, add_security_event
from service.models.identity.sign_in import end_all_sessions
from service.models.operations.admin_actions import (
    EXPORT,
    MARK_PAID,
    PURGE,
    READ_REPORT,
    RERUN,
    RESET_PASSKEYS,
    SIGN_OUT,
    Via,
    log_admin_action,
)
from service.operations.recalculation import NO_AUDIT, get_ended, queue_again
from service.payments import ManualPayment, mark_paid
from service.reports.kept import get_pdf


def get_any_pdf(
    session: Session, blobs: BlobStore, audit_id: str, via: Via, *, rules_url: str
) -> bytes:
    """Return the report of an audit as PDF; reading another account's report is logged too."""
    audit, row = session.get(Audit, audit_id), session.get(ReportRow, audit_id)
    if audit is None:
        raise NotFoundError(NO_AUDIT)
    if row is None:
        raise NotFoundError("This audit has no report.")
    log_admin_action(session, via, READ_REPORT, audit.id, {})
    name = get_account(session, audit.account_id).name
    return get_pdf(blobs, audit, row.document, row.created_at, name=name, rules_url=rules_url)


def mark_purged(session: Session, audit_id: str, via: Via) -> tuple[Audit, bool]:
    """Mark the raw upload as purged, and return whether that is new; delete the blob after commit.

    The order matters, because a row must not name a deleted blob. If a crash leaves the blob
    behind, it is removed as an orphan.
    """
    audit = get_ended(session, audit_id, "purged")
    is_new = audit.raw_purged_at is None
    audit.raw_purged_at = audit.raw_purged_at or utc_now()
    log_admin_action(session, via, PURGE, audit.id, {"is_repeat": not is_new})
    return audit, is_new


def queue_rerun(session: Session, blobs: BlobStore, audit_id: str, via: Via) -> Audit:
    """Queue the audit again, from the raw upload or, if that is purged, from the record frame.

    The count of attempts starts over. The previous report stays until it is replaced.
    """
    audit, source_key = queue_again(session, blobs, audit_id)
    log_admin_action(session, via, RERUN, audit.id, {"source": source_key.partition("/")[0]})
    return audit


class Reruns(NamedTuple):
    """How many failed audits were queued again, and how many have no records anymore."""

    queued: int
    purged: int


def queue_failed(
    session: Session, blobs: BlobStore, queues: AuditQueues, since: datetime, via: Via
) -> Reruns:
    """Queue every batch and file again whose audit has failed since a time, oldest first.

    Audit each account again whose latest audit has. Each is committed, so an interrupted command
    can be repeated.
    """
    failed = select(Audit.id).where(Audit.status == FAILED, Audit.source != ACCOUNT)
    audit_ids = session.scalars(failed.where(Audit.finished_at >= since).order_by(Audit.created_at))
    queued = purged = 0
    for audit_id in audit_ids.all():
        try:
            audit = queue_rerun(session, blobs, audit_id, via)
        except (InvalidRequestError, NotFoundError):
            purged += 1
            session.rollback()
            continue
        wake_up = (audit.id, audit.source, audit.attempts + 1)
        session.commit()
        queues.enqueue_audit(*wake_up)
        queued += 1
    # A new audit of an account is of all that it has sent until now, so the latest one decides.
    latest = (
        select(Audit.account_id, Audit.window_days, Audit.status, Audit.finished_at)
        .where(Audit.source == ACCOUNT)
        .ext(distinct_on(Audit.account_id))
        .order_by(Audit.account_id, Audit.created_at.desc(), Audit.id.desc())
        .subquery()
    )
    has_failed = (latest.c.status == FAILED, latest.c.finished_at >= since)
    accounts = session.execute(select(latest.c.account_id, latest.c.window_days).where(*has_failed))
    for account_id, window_days in accounts.all():
        new = queue_account_audit(session.connection(), account_id, window_days)
        if new is None:  # its calls were deleted meanwhile
            purged += 1
            continue
        log_admin_action(session, via, RERUN, new, {"source": ACCOUNT})
        session.commit()
        queues.enqueue_audit(new, ACCOUNT)
        queued += 1
    return Reruns(queued, purged)


def record_payment(session: Session, manual: ManualPayment, via: Via) -> tuple[Payment, bool]:
    """Record a payment that an administrator confirms; return it and whether it is new."""
    payment, is_new = mark_paid(session, manual)
    details = {
        "provider": manual.provider,
        "reference": manual.reference,
        "kind": manual.kind,
        "plan": manual.plan,
        "amount": str(manual.amount),
        "currency": manual.currency,
        "is_repeat": not is_new,
    }
    log_admin_action(session, via, MARK_PAID, manual.email, details)
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
    """Return all early access signups; the export is logged as an admin action."""
    rows = list(list_early_access(session))
    log_admin_action(session, via, EXPORT, "early_access", {"rows": len(rows)})
    return rows


def sign_out(session: Session, account: Account, via: Via) -> int:
    """End every session of an account and every sign-in that waits; return how many sessions."""
    ended = end_all_sessions(session, account.id)
    end_pending_sign_ins(session, account.id)
    add_security_event(session, account.id, EventKind.ADMIN_SIGNED_OUT, {})
    log_admin_action(session, via, SIGN_OUT, account.email, {"sessions": ended})
    return ended


def reset_passkeys(session: Session, account: Account, via: Via) -> int:
    """Remove the passkeys and recovery codes of somebody who lost them; return how many passkeys.

    A sign-in link alone signs in again, so the account is mailed about it.
    """
    removed = remove_second_factor(session, account.id)
    add_security_event(session, account.id, EventKind.ADMIN_RESET_PASSKEYS, {})
    post_notice(session, account, EventKind.ADMIN_RESET_PASSKEYS, browser="", subject=None)
    log_admin_action(session, via, RESET_PASSKEYS, account.email, {"passkeys": removed})
    return removed


def get_any_account(session: Session, account_id: str) -> Account:
    account = session.get(Account, account_id)
    if account is None:
        raise NotFoundError("There is no account with this ID.")
    return account
