"""Which accounts were watched until when, and the unusual days that were found."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Index, exists, func, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, OwnerKey
from service.models.calls.daily_spend import SpendRow
from service.models.identity.accounts import Account
from service.models.watching.budgets import Budget

_CHECK_EVERY: Final = timedelta(minutes=50)
_LATEST: Final = 5  # unusual days of a page


class AccountWatch(Base):
    """How far an account has been watched."""

    __tablename__ = "account_watches"

    account_id: Mapped[OwnerKey]
    watched_until: Mapped[date | None]  # the last day that was over
    budgets_checked_at: Mapped[datetime | None]


class UnusualDay(Base):
    """A day with unusual spend; `series` lists what was unusual."""

    __tablename__ = "unusual_days"
    __table_args__ = (
        Index("ix_unusual_days_unmailed", "account_id", postgresql_where=text("mailed_at IS NULL")),
    )

    account_id: Mapped[OwnerKey]
    day: Mapped[date] = mapped_column(primary_key=True)
    series: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    mailed_at: Mapped[datetime | None]


def list_unwatched(connection: Connection, days: tuple[date, date], limit: int) -> Sequence[str]:
    """Return accounts with spend on some days whose last was not watched yet."""
    has_spend = exists().where(SpendRow.account_id == Account.id, SpendRow.day.between(*days))
    until = AccountWatch.watched_until
    query = select(Account.id).outerjoin(AccountWatch, AccountWatch.account_id == Account.id)
    due = query.where(or_(until.is_(None), until < days[1]), has_spend)
    return connection.scalars(due.order_by(Account.id).limit(limit)).all()


def claim_watch(connection: Connection, account_id: str, until: date) -> bool:
    """Mark an account as watched; return False if another process did so before."""
    watch = AccountWatch.watched_until
    return _claim(
        connection,
        {"account_id": account_id, "watched_until": until},
        or_(watch.is_(None), watch < until),
    )


def list_unchecked(connection: Connection, limit: int) -> Sequence[str]:
    """Return accounts whose budgets were not checked for an hour."""
    query = select(Budget.account_id).outerjoin(
        AccountWatch, AccountWatch.account_id == Budget.account_id
    )
    due = query.where(_is_unchecked()).distinct().order_by(Budget.account_id)
    return connection.scalars(due.limit(limit)).all()


def claim_check(connection: Connection, account_id: str) -> bool:
    """Mark an account's budgets as checked; return False if another process did so before."""
    checked = {"account_id": account_id, "budgets_checked_at": func.now()}
    return _claim(connection, checked, _is_unchecked())


def add_unusual_day(connection: Connection, found: Mapping[str, Any]) -> bool:
    """Add an unusual day; return False if it was added before."""
    once = insert(UnusualDay).values(found).on_conflict_do_nothing()
    return connection.execute(once).rowcount > 0


def list_unusual_days(
    session: Session, account_id: str, days: tuple[date, date], *, limit: int = _LATEST
) -> Sequence[UnusualDay]:
    """Return the latest unusual days of a range, newest first."""
    query = select(UnusualDay).where(
        UnusualDay.account_id == account_id, UnusualDay.day.between(*days)
    )
    return session.scalars(query.order_by(UnusualDay.day.desc()).limit(limit)).all()


def _is_unchecked() -> Any:
    checked = AccountWatch.budgets_checked_at
    return or_(checked.is_(None), checked < func.now() - _CHECK_EVERY)


def _claim(connection: Connection, values: Mapping[str, Any], is_free: Any) -> bool:
    """Write the row of an account if the condition still holds; it is locked until the commit."""
    new = insert(AccountWatch).values(values)
    changed = {name: value for name, value in values.items() if name != "account_id"}
    claim = new.on_conflict_do_update(index_elements=["account_id"], set_=changed, where=is_free)
    return connection.execute(claim).rowcount > 0
