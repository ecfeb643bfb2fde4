"""The finished audits that can be recalculated, because their records or their frames are kept."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, or_, select, tuple_
from sqlalchemy.orm import Session

from service.models.audits.audits import DONE, Audit, ReportRow, of_source
from service.models.audits.dashboard import find_position

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
