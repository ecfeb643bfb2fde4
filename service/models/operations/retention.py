"""Delete expired rows, one batch per call, by the database's clock. Callers commit.

Payment events and admin actions are kept permanently; triggers on their tables ensure it.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    LargeBinary,
    and_,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    type_coerce,
    update,
)
from sqlalchemy.orm import aliased

from service.core.packing import pack
from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import TOKEN_SECONDS, OAuthCode
from service.models.audits.audits import ACCOUNT, DONE, FAILED, INGEST, Audit, FindingRow, ReportRow
from service.models.audits.report_links import ReportLink
from service.models.base import utc_now
from service.models.calls.account_findings import AccountFinding, FindingRecord
from service.models.calls.call_files import LATE, CallFile, CallImport
from service.models.identity.passkeys import PendingSignIn
from service.models.identity.security_events import SecurityEvent
from service.models.identity.sign_in import MagicLink, WebSession
from service.models.sending import Outgoing

BATCH: Final = 500
_SHOWN_EXPIRED_DAYS: Final = 30


def purge_old_raws(connection: Connection, done_days: int, failed_days: int) -> Sequence[str]:
    """Mark old raw uploads as purged; return the keys of blobs to delete after the commit."""
    is_old = and_(
        Audit.raw_purged_at.is_(None),
        or_(
            and_(Audit.status == DONE, Audit.finished_at < before(done_days)),
            and_(Audit.status == FAILED, Audit.finished_at < before(failed_days)),
        ),
    )
    oldest = select(Audit.id).where(is_old).order_by(Audit.finished_at).limit(BATCH)
    ids = connection.scalars(oldest).all()
    # Check the condition again, because an administrator may just have queued one for a rerun.
    purged = update(Audit).where(Audit.id.in_(ids), is_old).values(raw_purged_at=func.now())
    return connection.scalars(purged.returning(Audit.blob_key)).all()


def delete_expired_links(connection: Connection) -> int:
    """Delete expired sign-in links, and sign-ins that waited too long for a passkey."""
    _delete(connection, PendingSignIn, PendingSignIn.expires_at < func.now())
    return _delete(connection, MagicLink, MagicLink.expires_at < func.now())


def delete_ended_sessions(connection: Connection, idle_days: int) -> int:
    """Delete expired sessions and sessions idle for `idle_days`."""
    is_idle = WebSession.last_seen_at < before(idle_days)
    return _delete(connection, WebSession, or_(WebSession.expires_at < func.now(), is_idle))


def delete_ended_codes(connection: Connection) -> int:
    """Delete expired unused codes, and used codes once their tokens have expired."""
    is_unused = and_(OAuthCode.used_at.is_(None), OAuthCode.expires_at < func.now())
    is_spent = OAuthCode.used_at < func.now() - timedelta(seconds=TOKEN_SECONDS)
    return _delete(connection, OAuthCode, or_(is_unused, is_spent))


def delete_expired_secrets(connection: Connection) -> int:
    """Delete expired keys and tokens, after they were listed as expired for a while."""
    return sum(
        _delete(connection, table, table.expires_at < before(_SHOWN_EXPIRED_DAYS))
        for table in (IngestKey, ReadToken)
    )


def delete_sent(connection: Connection, table: type[Outgoing], days: int) -> int:
    """Delete old mails or notices that were sent or failed."""
    return _delete(connection, table, and_(~table.is_unsent(), table.queued_at < before(days)))


def delete_old_events(connection: Connection, days: int) -> int:
    return _delete(connection, SecurityEvent, SecurityEvent.occurred_at < before(days))


def _delete(connection: Connection, table: Any, is_over: ColumnElement[bool]) -> int:
    some = select(table.id).where(is_over).limit(BATCH)
    return connection.execute(delete(table).where(table.id.in_(some), is_over)).rowcount


def before(days: int) -> ColumnElement[Any]:
    """Return the time so many days ago."""
    return func.now() - timedelta(days=days)


# Calls that were long past when they were imported stay for a while, too.
_PURGED_AFTER: Final = timedelta(days=30)
# Readers may still have a replaced file; deleting an account deletes its blob too.
_REPLACED_KEPT: Final = timedelta(days=1)


def delete_replaced(connection: Connection, limit: int) -> int:
    """Delete the rows of files that were replaced a day ago; return their number."""
    is_old = and_(CallFile.replaced_at < func.now() - _REPLACED_KEPT, CallFile.purged_at.is_(None))
    some = select(CallFile.id).where(is_old).limit(limit)
    return connection.execute(delete(CallFile).where(CallFile.id.in_(some))).rowcount


def purge_old(connection: Connection, days: int, limit: int) -> int:
    """Purge merged files whose last day was so many days ago; return their number.

    Their rows stay, because their spend belongs to them. Their blobs become orphans.
    """
    last_day = utc_now().date() - timedelta(days=days)
    is_old = and_(
        CallFile.replaced_at.is_(None),
        CallFile.level >= LATE,
        CallFile.last_day < last_day,
        CallFile.created_at < func.now() - _PURGED_AFTER,
    )
    some = select(CallFile.id).where(is_old).limit(limit)
    purged = update(CallFile).where(CallFile.id.in_(some), is_old)
    return connection.execute(purged.values(replaced_at=func.now(), purged_at=func.now())).rowcount


def delete_old_spend(connection: Connection, days: int, limit: int) -> int:
    """Delete the spend of purged files whose last day was so many days ago; return their number."""
    last_day = utc_now().date() - timedelta(days=days)
    is_old = and_(CallFile.purged_at.is_not(None), CallFile.last_day < last_day)
    some = select(CallFile.id).where(is_old).limit(limit)
    return connection.execute(delete(CallFile).where(CallFile.id.in_(some))).rowcount


# The history of findings is thinned when it is this old; earlier days have been.
_THINNED: Final = timedelta(days=7)


def delete_batch_reports(connection: Connection, days: int, link_days: int) -> int:
    """Delete the documents and findings of batches that were reported so many days ago."""
    is_old = and_(
        Audit.source == INGEST,
        Audit.status == DONE,
        Audit.report_deleted_at.is_(None),
        Audit.finished_at < before(days),
        # Without its records, an audit can't be rerun, so nothing needs its frame.
        Audit.raw_purged_at.is_not(None),
        exists().where(CallImport.audit_id == Audit.id),
        ~_has_link(link_days),
    )
    oldest = select(Audit.id).where(is_old).order_by(Audit.finished_at).limit(BATCH)
    ids = connection.scalars(oldest).all()
    none = {"report_deleted_at": func.now(), "frame_key": None, "frame_bytes": None}
    deleted = update(Audit).where(Audit.id.in_(ids), is_old).values(none)
    own = connection.scalars(deleted.returning(Audit.id)).all()
    for table in (FindingRow, ReportRow, CallImport):
        connection.execute(delete(table).where(table.audit_id.in_(own)))
    return len(ids)


def delete_account_audits(
    connection: Connection, days: int, month_days: int, link_days: int
) -> int:
    """Delete audits of accounts, except the latest of each window and day, later of each month.

    The dashboard compares with an audit of 30 days before, so days become months after twice the
    time. Those of months are deleted after `month_days`. An audit that a finding leads to stays.
    """
    is_old = and_(
        Audit.source == ACCOUNT,
        Audit.finished_at < before(days),
        or_(
            Audit.status == FAILED,
            and_(Audit.status == DONE, _is_superseded(2 * days, month_days)),
        ),
        ~exists().where(AccountFinding.audit_id == Audit.id),
        ~_has_link(link_days),
    )
    some = select(Audit.id).where(is_old).order_by(Audit.finished_at).limit(BATCH)
    ids = connection.scalars(some).all()
    return connection.execute(delete(Audit).where(Audit.id.in_(ids), is_old)).rowcount


def delete_finding_history(connection: Connection, days: int, day_days: int) -> int:
    """Thin the history of findings to a record a day, and delete it after `day_days`."""
    later = aliased(FindingRecord)
    is_thinned = and_(
        FindingRecord.audited_at.between(before(days) - _THINNED, before(days)),
        exists().where(
            later.account_finding_id == FindingRecord.account_finding_id,
            later.audited_at > FindingRecord.audited_at,
            _day(later.audited_at) == _day(FindingRecord.audited_at),
        ),
    )
    key = (FindingRecord.account_finding_id, FindingRecord.audit_id)
    is_old = or_(is_thinned, FindingRecord.audited_at < before(day_days))
    some = connection.execute(select(*key).where(is_old).limit(BATCH)).all()
    connection.execute(delete(FindingRecord).where(tuple_(*key).in_(some)))
    return len(some)


def _has_link(link_days: int) -> Any:
    """Match audits whose report can be opened with a link that someone has."""
    return exists().where(
        ReportLink.audit_id == Audit.id,
        ReportLink.revoked_at.is_(None),
        ReportLink.issued_at > before(link_days),
    )


def _is_superseded(days: int, month_days: int) -> Any:
    """Match audits before another of their window and day; month, or any time, if they are old."""
    later = aliased(Audit)
    month = [func.date_trunc("month", each.finished_at, "UTC") for each in (later, Audit)]
    return exists().where(
        later.account_id == Audit.account_id,
        later.source == ACCOUNT,
        later.status == DONE,
        later.window_days == Audit.window_days,
        later.finished_at > Audit.finished_at,
        or_(
            _day(later.finished_at) == _day(Audit.finished_at),
            and_(month[0] == month[1], Audit.finished_at < before(days)),
            Audit.finished_at < before(month_days),
        ),
    )


def _day(moment: Any) -> Any:
    return cast(func.timezone("UTC", moment), Date)


# Documents per transaction; a few are megabytes.
_PACKED_AT_ONCE: Final = 50
PACKED_AFTER: Final = timedelta(hours=1)


def pack_reports(connection: Connection, after: timedelta = PACKED_AFTER) -> int:
    """Pack some of the older documents; return their number.

    A report that another transaction is replacing is left to a later round.
    """
    stored = type_coerce(ReportRow.document, LargeBinary)
    old = (~ReportRow.is_packed, ReportRow.created_at <= func.now() - after)
    query = select(ReportRow.audit_id, stored.label("document")).where(*old)
    oldest = query.order_by(ReportRow.created_at).limit(_PACKED_AT_ONCE)
    rows = connection.execute(oldest.with_for_update(skip_locked=True)).all()
    for audit_id, document in rows:
        packed = update(ReportRow).where(ReportRow.audit_id == audit_id)
        new = type_coerce(pack(bytes(document)), LargeBinary)
        connection.execute(packed.values(document=new, is_packed=True))
    return len(rows)
