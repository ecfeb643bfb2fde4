"""Delete old reports of batches and old audits of accounts, one batch per call. Callers commit.

A report stays as long as a link to it works, and until its calls are in the account's call store.
The audit's row stays with its figures. Its frame, which no row names any more, becomes an orphan.
"""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Date,
    and_,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import aliased

from service.models.audits.audits import ACCOUNT, DONE, FAILED, INGEST, Audit, FindingRow, ReportRow
from service.models.audits.report_links import ReportLink
from service.models.calls.account_findings import AccountFinding, FindingRecord
from service.models.calls.call_files import CallImport
from service.models.operations.retention import BATCH, before

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
