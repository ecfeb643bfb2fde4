"""Lists of audits and of findings.

They read only what is shown: with whole rows, a page takes longer.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, Select, or_, select, tuple_
from sqlalchemy.orm import Session

from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    Audit,
    Cursor,
    FindingRow,
    ReportRow,
    of_source,
)
from service.models.audits.dashboard import find_position

_AUDIT: Final = Audit.__table__.c
_FINDING: Final = FindingRow.__table__.c
_NEWEST: Final = (_AUDIT.created_at, _AUDIT.id)


class AuditFilter(NamedTuple):
    """The filters of an audit list: status, earliest time, cursor and source."""

    limit: int
    status: str | None = None
    since: datetime | None = None
    after: Cursor | None = None
    source: str | None = None


def list_audits(
    session: Session, account_id: str, wanted: AuditFilter, columns: Iterable[str]
) -> Sequence[Row[Any]]:
    """Return columns of the account's audits, newest first; ties are sorted by ID, descending."""
    query = select(*(_AUDIT[name] for name in columns)).where(
        _AUDIT.account_id == account_id, of_source(wanted.source)
    )
    if wanted.status is not None:
        query = query.where(_AUDIT.status == wanted.status)
    if wanted.since is not None:
        query = query.where(_AUDIT.created_at >= wanted.since)
    if wanted.after is not None:
        query = query.where(tuple_(*_NEWEST) < wanted.after)
    return session.execute(query.order_by(*(at.desc() for at in _NEWEST)).limit(wanted.limit)).all()


class Reported(NamedTuple):
    """What a choice of an audit shows of it."""

    id: str
    created_at: datetime
    source: str
    total_spend_usd: Decimal
    window_days: int | None


def list_reported(session: Session, account_id: str, limit: int) -> Sequence[Reported]:
    """Return the newest audits of the account, then the newest of batches and files.

    Of each kind, the latest `limit` are read, and those that still have a report are returned.
    """
    columns = [getattr(Audit, name) for name in (*Reported._fields, "report_deleted_at")]
    done = select(*columns).where(Audit.account_id == account_id, Audit.status == DONE)
    newest = done.order_by(Audit.created_at.desc(), Audit.id.desc()).limit(limit)
    rows = [
        row
        for source in (ACCOUNT, None)
        for row in session.execute(newest.where(of_source(source)))
    ]
    return [Reported(*row[:-1]) for row in rows if row.report_deleted_at is None]


def find_findings(
    session: Session, account_id: str, audit_id: str, columns: Iterable[str]
) -> Sequence[Row[Any]] | None:
    """Return columns of the audit's findings by rank; None if the account has no such audit."""
    rows = session.execute(
        select(*(_FINDING[name] for name in columns))
        .select_from(Audit.__table__.outerjoin(FindingRow.__table__))
        .where(_AUDIT.account_id == account_id, _AUDIT.id == audit_id)
        .order_by(_FINDING.rank)
    ).all()
    if not rows:
        return None
    return [row for row in rows if row.id is not None]


Published = tuple[Audit, datetime]


def list_page(session: Session, account_id: str, after: str, limit: int) -> Sequence[Published]:
    """Return audits and the times of their reports, newest first, after the given audit, if any."""
    query = _recalculable(account_id)
    position = find_position(session, account_id, after)
    if position is not None:
        query = query.where(tuple_(Audit.created_at, Audit.id) < position)
    newest = (Audit.created_at.desc(), Audit.id.desc())
    return _read(session, query.order_by(*newest).limit(limit))


def lock_each(session: Session, account_id: str, audit_ids: Sequence[str]) -> Sequence[Published]:
    """Return those of the audits that can be recalculated now, with their rows locked."""
    query = _recalculable(account_id).where(Audit.id.in_(audit_ids))
    locked = query.order_by(Audit.id).with_for_update(of=Audit)
    return _read(session, locked.execution_options(populate_existing=True))


def _recalculable(account_id: str) -> Select[*tuple[Any, ...]]:
    has_records = or_(Audit.raw_purged_at.is_(None), Audit.frame_key.is_not(None))
    query = select(Audit, ReportRow.created_at).join(ReportRow, ReportRow.audit_id == Audit.id)
    own = (Audit.account_id == account_id, Audit.status == DONE, of_source(None))
    return query.where(*own, has_records)


def _read(session: Session, query: Select[*tuple[Any, ...]]) -> Sequence[Published]:
    return [(audit, published_at) for audit, published_at in session.execute(query)]
