"""What an account's audits take up: places in the queue, stored bytes, and time without a report.

A failed audit returns its credit, so without a limit one credit would buy any amount of work.
"""

from datetime import date, datetime, timedelta
from typing import Final

from sqlalchemy import (
    Connection,
    Date,
    Integer,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import QUEUED, UPLOAD, Audit
from service.models.base import Base, Executor, OwnerKey, utc_now
from service.models.calls.call_files import IMPORT, CallFile
from service.models.imports.span_batches import SpanBatch


class FailedWork(Base):
    """The seconds of one account on one day, in UTC."""

    __tablename__ = "failed_work"

    account_id: Mapped[OwnerKey]
    day: Mapped[date] = mapped_column(primary_key=True)
    seconds: Mapped[float] = mapped_column(default=0.0)


# Made once, because batches need it often.
_AUDIT: Final = Audit.__table__.c
_QUEUED: Final = (_AUDIT.account_id == bindparam("account_id"), _AUDIT.status == QUEUED)
_SOME: Final = select(_AUDIT.id).where(*_QUEUED).limit(bindparam("at_most", type_=Integer))
_COUNT_QUEUED: Final = select(func.count()).select_from(_SOME.subquery())


def count_queued(connection: Executor, account_id: str, at_most: int) -> int:
    """Count the account's queued audits, but stop at a number."""
    return connection.scalar(_COUNT_QUEUED, {"account_id": account_id, "at_most": at_most}) or 0


def sum_stored_bytes(session: Session, account_id: str) -> int:
    """Sum the sizes of the account's raw records, spans, frames, and merged files of calls."""
    raw = case((Audit.raw_purged_at.is_(None), Audit.raw_bytes), else_=0)
    size = func.coalesce(raw, 0) + func.coalesce(Audit.frame_bytes, 0)
    audits = select(func.sum(size)).where(Audit.account_id == account_id).scalar_subquery()
    merged = (CallFile.replaced_at.is_(None), CallFile.level > IMPORT)
    calls = select(func.sum(CallFile.bytes)).where(CallFile.account_id == account_id, *merged)
    spans = select(func.sum(SpanBatch.size)).where(SpanBatch.account_id == account_id)
    total = func.coalesce(audits, 0) + func.coalesce(calls.scalar_subquery(), 0)
    total += func.coalesce(spans.scalar_subquery(), 0)
    return int(session.scalar(select(total)) or 0)


def add_failed_seconds(connection: Connection, audit_id: str, seconds: float) -> None:
    """Add what a failed attempt at an upload took to its account's day."""
    today = cast(func.timezone("UTC", func.now()), Date)
    upload = (Audit.id == audit_id, Audit.source == UPLOAD)
    owner = select(Audit.account_id, today, literal(seconds)).where(*upload)
    statement = insert(FailedWork).from_select(["account_id", "day", "seconds"], owner)
    total = FailedWork.seconds + statement.excluded.seconds
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["account_id", "day"], set_={"seconds": total}
        )
    )


def count_failed_seconds(session: Session, account_id: str) -> float:
    """Return today's seconds of the account."""
    today = (FailedWork.account_id == account_id, FailedWork.day == utc_now().date())
    return session.scalar(select(FailedWork.seconds).where(*today)) or 0.0


def seconds_until_tomorrow(now: datetime) -> int:
    """Return the seconds until the next day begins, in UTC."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return int((midnight - now).total_seconds()) + 1


def delete_old_days(connection: Connection) -> int:
    """Delete the days before yesterday."""
    old = FailedWork.day < utc_now().date() - timedelta(days=1)
    return connection.execute(delete(FailedWork).where(old)).rowcount
