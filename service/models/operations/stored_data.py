"""The bytes that each account stores; housekeeping measures them once a day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import Audit, FindingRow, ReportRow
from service.models.base import Base, OwnerKey
from service.models.calls.call_files import IMPORT, CallFile
from service.models.calls.daily_spend import PlanRow, SpendDay, SpendGroup, SpendRow
from service.models.identity.accounts import Account

# Accounts per batch; one with many reports takes a tenth of a second.
BATCH: Final = 10
_TOP: Final = 20


class StoredData(Base):
    """What one account stores: reports and spend in the database, records and calls as blobs."""

    __tablename__ = "stored_data"

    account_id: Mapped[OwnerKey]
    measured_at: Mapped[datetime]
    report_bytes: Mapped[int] = mapped_column(BigInteger)  # documents and findings
    raw_bytes: Mapped[int] = mapped_column(BigInteger)  # records as they were sent
    call_bytes: Mapped[int] = mapped_column(BigInteger)  # frames, and the files of the call store
    spend_bytes: Mapped[int] = mapped_column(BigInteger)  # by day


class StoredLine(NamedTuple):
    """What an account stores, for the admin page."""

    account_id: str
    email: str
    report_bytes: int
    raw_bytes: int
    call_bytes: int
    spend_bytes: int
    total_bytes: int
    measured_at: datetime


def measure_accounts(connection: Connection) -> int:
    """Measure some of the accounts that were not measured today, in UTC; return their number."""
    today = func.date_trunc("day", func.now(), "UTC")
    is_due = or_(StoredData.measured_at.is_(None), StoredData.measured_at < today)
    due = select(Account.id).outerjoin(StoredData, StoredData.account_id == Account.id)
    account_ids = connection.scalars(due.where(is_due).limit(BATCH)).all()
    for account_id in account_ids:
        mine = Audit.account_id == account_id
        raw = func.sum(case((Audit.raw_purged_at.is_(None), Audit.raw_bytes), else_=0))
        merged = (CallFile.replaced_at.is_(None), CallFile.level > IMPORT)
        documents = (
            _size_of(ReportRow.document).join(Audit, Audit.id == ReportRow.audit_id).where(mine)
        )
        findings = _size_of(_rows("findings")).select_from(FindingRow)
        findings = findings.join(Audit, Audit.id == FindingRow.audit_id).where(mine)
        spend = _size_of(_rows("daily_spend")).select_from(SpendRow)
        days = _size_of(_rows("spend_days")).select_from(SpendDay)
        groups = _size_of(_rows("spend_groups")).select_from(SpendGroup)
        plans = _size_of(_rows("plan_usage")).select_from(PlanRow)
        frames = select(func.sum(Audit.frame_bytes)).where(mine)
        calls = select(func.sum(CallFile.bytes)).where(CallFile.account_id == account_id, *merged)
        new = {
            "measured_at": func.now(),
            "report_bytes": _total(documents, findings),
            "raw_bytes": _total(select(raw).where(mine)),
            "call_bytes": _total(frames, calls),
            "spend_bytes": _total(
                spend.where(SpendRow.account_id == account_id),
                days.where(SpendDay.account_id == account_id),
                groups.where(SpendGroup.account_id == account_id),
                plans.where(PlanRow.account_id == account_id),
            ),
        }
        statement = insert(StoredData).values(account_id=account_id, **new)
        changed = {name: statement.excluded[name] for name in new}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["account_id"], set_=changed)
        )
    return len(account_ids)


def find_stored_data(session: Session, account_id: str) -> StoredData | None:
    """Return what the account stored when it was last measured."""
    return session.get(StoredData, account_id)


def list_largest(session: Session) -> Sequence[StoredLine]:
    """Return the accounts that store most, largest first."""
    sizes = [getattr(StoredData, name) for name in StoredLine._fields[2:6]]
    total = (sizes[0] + sizes[1] + sizes[2] + sizes[3]).label("total_bytes")
    query = select(Account.id, Account.email, *sizes, total, StoredData.measured_at)
    ranked = query.join(Account, Account.id == StoredData.account_id)
    largest = ranked.order_by(total.desc(), Account.id).limit(_TOP)
    return [StoredLine(*row) for row in session.execute(largest)]


def _size_of(value: Any) -> Any:
    """Return a query of the stored bytes of values, as they are compressed."""
    return select(func.sum(func.pg_column_size(value)))


def _rows(table: str) -> ColumnElement[Any]:
    """Return whole rows of a table that has no large values, which would be read for this."""
    return literal_column(f"{table}.*")


def _total(*queries: Any) -> ColumnElement[Any]:
    total: ColumnElement[Any] = literal(0)
    for query in queries:
        total = total + func.coalesce(query.scalar_subquery(), 0)
    return total
