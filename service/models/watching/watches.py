"""Which accounts were watched until when, and the unusual days that were found."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    Index,
    Row,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base, OwnerKey
from service.models.calls.account_audits import AccountCalls
from service.models.calls.daily_spend import SpendDay, SpendRow, day_of, within_days
from service.models.identity.accounts import Account
from service.models.watching.budgets import Budget

_CHECK_EVERY: Final = timedelta(minutes=50)
# Past days change by imports, whose burst is judged together.
_JUDGE_EVERY: Final = timedelta(hours=1)
_QUIET: Final = timedelta(minutes=1)


class AccountWatch(Base):
    """How far an account has been watched."""

    __tablename__ = "account_watches"

    account_id: Mapped[OwnerKey]
    watched_until: Mapped[date | None]  # the last day that was over
    # The spend that each day had when it was judged, by the day: an import changes past days.
    judged: Mapped[dict[str, str] | None] = mapped_column(JSONB)
    judged_at: Mapped[datetime | None]
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


def list_unwatched(
    connection: Connection, last: date, last_in: Mapping[str | None, date], days: int, limit: int
) -> Sequence[Row[str, str | None]]:
    """Return accounts, and their zones, with spend on the last days, if it wasn't watched yet.

    And those with imports since their days were judged, once an hour at most. `last` is the last
    day in UTC, `last_in` those in zones that accounts have chosen.
    """
    is_last: Any = literal(last, Date)
    if last_in:
        ends = {zone: literal(day, Date) for zone, day in last_in.items()}
        is_last = case(ends, value=Account.time_zone, else_=is_last)
    # A day in another zone is on two days in UTC.
    within = SpendRow.day.between(is_last - days, is_last + 1)
    has_spend = exists().where(SpendRow.account_id == Account.id, within)
    query = (
        select(Account.id, Account.time_zone)
        .outerjoin(AccountWatch, AccountWatch.account_id == Account.id)
        .outerjoin(AccountCalls, AccountCalls.account_id == Account.id)
    )
    is_new = and_(_is_unwatched(is_last), has_spend)
    has_imports = and_(AccountCalls.last_import_at < func.now() - _QUIET, _has_unjudged())
    due = query.where(or_(is_new, has_imports)).order_by(Account.id)
    return connection.execute(due.limit(limit)).all()


def _is_unwatched(until: Any) -> ColumnElement[bool]:
    watched = AccountWatch.watched_until
    return or_(watched.is_(None), watched < until)


def _has_unjudged() -> ColumnElement[bool]:
    """Match an account whose last import came after its days were judged."""
    judged = AccountWatch.judged_at
    is_due = and_(judged < AccountCalls.last_import_at, judged < func.now() - _JUDGE_EVERY)
    return and_(AccountCalls.last_import_at.is_not(None), or_(judged.is_(None), is_due))


def claim_watch(connection: Connection, account_id: str, until: date) -> Mapping[str, str] | None:
    """Mark an account as watched; return its days that were judged, with their spend.

    Return None if another process did so before.
    """
    of_account = AccountCalls.account_id == account_id
    has_unjudged = exists().where(of_account, _has_unjudged())
    values = {"account_id": account_id, "watched_until": until, "judged_at": func.now()}
    if not _claim(connection, values, or_(_is_unwatched(until), has_unjudged)):
        return None
    judged = select(AccountWatch.judged).where(AccountWatch.account_id == account_id)
    return connection.scalar(judged) or {}


def note_judged(connection: Connection, account_id: str, judged: Mapping[str, str]) -> None:
    """Note the spend that each day had when it was judged."""
    own = update(AccountWatch).where(AccountWatch.account_id == account_id)
    connection.execute(own.values(judged=dict(judged)))


def judge_again(connection: Connection, account_id: str) -> None:
    """Have an account's days judged again that have other spend than they had, and its budgets.

    Until then, no mail has them: they are by the days of another zone.
    """
    own = update(AccountWatch).where(AccountWatch.account_id == account_id)
    connection.execute(own.values(judged_at=None, budgets_checked_at=None))


def were_judged(account_id: str) -> ColumnElement[bool]:
    """Match if an account's days need not be judged again, by those of another zone."""
    return _is_known(account_id, AccountWatch.judged_at)


def were_checked(account_id: str) -> ColumnElement[bool]:
    """Match if an account's budgets need not be checked again, by days of another zone."""
    return _is_known(account_id, AccountWatch.budgets_checked_at)


def _is_known(account_id: str, when: Any) -> ColumnElement[bool]:
    return exists().where(AccountWatch.account_id == account_id, when.is_not(None))


def list_days_before(connection: Connection, account_id: str) -> Mapping[date, datetime | None]:
    """Return the unusual days of an account whose days are to be judged again, and when mailed.

    They may be days of another zone.
    """
    of_watch = AccountWatch.account_id == UnusualDay.account_id
    query = select(UnusualDay.day, UnusualDay.mailed_at).join(AccountWatch, of_watch)
    query = query.where(UnusualDay.account_id == account_id, AccountWatch.judged_at.is_(None))
    return {day: mailed_at for day, mailed_at in connection.execute(query)}


def list_spend_by_day(
    connection: Connection, account_id: str, days: tuple[date, date], *, is_local: bool = False
) -> Mapping[date, str]:
    """Return the calls and dollars of each day with spend, as one text for each."""
    day = day_of(SpendDay, is_local=is_local)
    sums = (func.sum(SpendDay.calls), func.sum(SpendDay.cost_usd))
    query = select(day, *sums).where(
        SpendDay.account_id == account_id, within_days(SpendDay, *days, is_local=is_local)
    )
    rows = connection.execute(query.group_by(day).order_by(day))
    return {row[0]: f"{row[1]:f} {row[2]:.2f}" for row in rows}


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
    """Add an unusual day, or what is known of it now; return False if it was added before."""
    new = insert(UnusualDay).values(found)
    series = {"series": new.excluded.series}
    keys = ("account_id", "day")
    known = new.on_conflict_do_update(index_elements=keys, set_=series)
    # A row that was inserted has no earlier version.
    return bool(connection.scalar(known.returning(literal_column("xmax = 0"))))


def remove_unusual_days(connection: Connection, account_id: str, days: Sequence[date]) -> None:
    """Remove days that are usual by what is known now."""
    own = (UnusualDay.account_id == account_id, UnusualDay.day.in_(days))
    connection.execute(delete(UnusualDay).where(*own))


def _is_unchecked() -> Any:
    checked = AccountWatch.budgets_checked_at
    return or_(checked.is_(None), checked < func.now() - _CHECK_EVERY)


def _claim(connection: Connection, values: Mapping[str, Any], is_free: Any) -> bool:
    """Write the row of an account if the condition still holds; it is locked until the commit."""
    new = insert(AccountWatch).values(values)
    changed = {name: value for name, value in values.items() if name != "account_id"}
    claim = new.on_conflict_do_update(index_elements=["account_id"], set_=changed, where=is_free)
    return connection.execute(claim).rowcount > 0
