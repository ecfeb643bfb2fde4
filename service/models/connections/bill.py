"""What a reconciliation reads: billed, reported and counted sums by day, and locked months."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Numeric,
    case,
    cast,
    delete,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, aliased, mapped_column

from service.models.base import Base, Executor, OwnerKey
from service.models.calls.daily_spend import SpendRow
from service.models.connections.connections import BY_HAND, ProviderConnection
from service.models.connections.reported import ReportedCost, ReportedUsage
from service.models.connections.unsent import is_counted

TOKENS = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "completion_tokens")
Days = tuple[date, date]
# Calls of a cloud's models also have these providers, as its own logs and libraries name it.
CALLED = {"aws": ("aws", "bedrock", "amazon-bedrock")}


class BillMonth(Base):
    """One month as it was when it was locked, by day: what later corrections are measured from."""

    __tablename__ = "bill_months"

    account_id: Mapped[OwnerKey]
    provider: Mapped[str] = mapped_column(primary_key=True)
    month: Mapped[date] = mapped_column(primary_key=True)
    locked_at: Mapped[datetime]
    billed_usd: Mapped[Decimal] = mapped_column(Numeric(30, 12))
    days: Mapped[dict[str, list[str]]] = mapped_column(JSONB)


def list_months(session: Executor, account_id: str) -> Sequence[Any]:
    """Return the months and providers with reported costs or usage, newest first."""
    found = set()
    for table in (ReportedCost, ReportedUsage):
        month = func.date_trunc("month", table.bucket_at).label("month")
        query = select(ProviderConnection.provider, month).join(
            ProviderConnection, ProviderConnection.id == table.connection_id
        )
        owned = query.where(table.account_id == account_id).distinct()
        found |= {(row[1].date(), row[0]) for row in session.execute(owned)}
    return sorted(found, key=lambda each: (-each[0].toordinal(), each[1]))


def newest_months(months: Sequence[Any], count: int) -> Sequence[Any]:
    """Return the newest of these months, each with all of its providers."""
    newest = sorted({month for month, _provider in months}, reverse=True)[:count]
    return [each for each in months if each[0] in newest]


def sum_costs(session: Executor, account_id: str, provider: str, days: Days) -> Sequence[Any]:
    """Return what was billed by day, project, kind, model and currency."""
    table = ReportedCost
    labels = (table.day, table.project_id, table.kind, table.model, table.currency)
    sums = (
        func.sum(table.amount).label("amount"),
        func.count().label("rows"),
        # Without a list price of each, there is none of their sum.
        case((func.count(table.list_amount) == func.count(), func.sum(table.list_amount))).label(
            "list_amount"
        ),
    )
    query = _of_provider(select(*labels, *sums), table, account_id, provider, days)
    return session.execute(query.group_by(*labels)).all()


def sum_usage(session: Executor, account_id: str, provider: str, days: Days) -> Sequence[Any]:
    """Return what was reported by day, project, model and tier, and how many rows have no price.

    The counts are those of `TOKENS` and requests, the dollars at list and at the account's prices.
    """
    table = ReportedUsage
    labels = (table.day, table.project_id, table.model, table.tier)
    sums = [*_count(table, *TOKENS, "requests"), *map(_add, (table.list_usd, table.cost_usd))]
    sums.append(func.count().filter(table.list_usd.is_(None)))
    query = _of_provider(select(*labels, *sums), table, account_id, provider, days)
    return session.execute(query.where(table.is_hourly.is_(False)).group_by(*labels)).all()


def sum_counted(session: Executor, account_id: str, provider: str, days: Days) -> Sequence[Any]:
    """Return what our calls counted by day and model: `TOKENS`, calls, and dollars at list."""
    table, labels = SpendRow, (SpendRow.day, SpendRow.model)
    sums = [*_count(table, *TOKENS, "calls"), _add(table.list_usd)]
    is_named = func.lower(table.provider).in_(CALLED.get(provider, (provider,)))
    mine = (table.account_id == account_id, is_named)
    query = select(*labels, *sums).where(*mine, table.day.between(*days), is_counted())
    return session.execute(query.group_by(*labels)).all()


def _count(table: Any, *names: str) -> Sequence[Any]:
    # The database's sums of integers are decimals, which are slower to read.
    return [cast(func.sum(getattr(table, name)), BigInteger) for name in names]


def _add(dollars: Any) -> Any:
    return func.coalesce(func.sum(dollars), 0)


def find_lock(session: Executor, account_id: str, provider: str, month: date) -> Any:
    query = select(BillMonth.locked_at, BillMonth.billed_usd, BillMonth.days)
    mine = (BillMonth.account_id == account_id, BillMonth.provider == provider)
    return session.execute(query.where(*mine, BillMonth.month == month)).one_or_none()


def list_unlocked(
    session: Executor, account_id: str, provider: str, before: date
) -> Sequence[date]:
    """Return the months since the first report that aren't locked, except later ones."""
    first = find_first_day(session, account_id, provider)
    query = select(BillMonth.month).where(
        BillMonth.account_id == account_id, BillMonth.provider == provider
    )
    locked, found = set(session.execute(query).scalars()), []
    month = first.replace(day=1) if first else before
    while month < before:
        if month not in locked:
            found.append(month)
        month = (month.replace(day=28) + timedelta(days=4)).replace(day=1)
    return found


def find_first_day(session: Executor, account_id: str, provider: str) -> date | None:
    """Return the first day that a provider has reported of an account."""
    days: list[date] = []
    for table in (ReportedCost, ReportedUsage):
        query = select(table.day).join(
            ProviderConnection, ProviderConnection.id == table.connection_id
        )
        mine = (table.account_id == account_id, ProviderConnection.provider == provider)
        first = query.where(*mine).order_by(table.day).limit(1)
        days += session.execute(first).scalars().all()
    return min(days, default=None)


def find_last_whole_day(
    session: Executor, account_id: str, provider: str, reports: Collection[str]
) -> date:
    """Return the last day that was over when these reports were last pulled."""
    pulled = (ProviderConnection.removed_at.is_(None), ~ProviderConnection.sight.has_key(BY_HAND))
    mine = (ProviderConnection.account_id == account_id, ProviderConnection.provider == provider)
    last = date.max
    for progress in session.execute(select(ProviderConnection.progress).where(*mine, *pulled)):
        states = [progress[0].get(name, {}) for name in reports]
        moments = [datetime.fromisoformat(state["at"]) for state in states if "at" in state]
        if moments:
            last = min(last, max(moments).date() - timedelta(days=1))
    return last


def forget_locks(session: Executor, account_id: str, provider: str) -> None:
    mine = (BillMonth.account_id == account_id, BillMonth.provider == provider)
    session.execute(delete(BillMonth).where(*mine))


def forget_locks_of(
    session: Executor, account_id: str, provider: str, connection_id: str, days: Days
) -> None:
    """Forget the locks of months of which a connection has days of this time that count."""
    months = set[date]()
    for table in (ReportedCost, ReportedUsage):
        own = select(table.day).where(table.connection_id == connection_id).distinct()
        rows = session.execute(_of_provider(own, table, account_id, provider, days)).scalars()
        months |= {day.replace(day=1) for day in rows}
    mine = (BillMonth.account_id == account_id, BillMonth.provider == provider)
    session.execute(delete(BillMonth).where(*mine, BillMonth.month.in_(months)))


def lock_month(connection: Connection, values: Mapping[str, Any]) -> None:
    """Lock the month, unless it is locked."""
    connection.execute(insert(BillMonth).values(**values).on_conflict_do_nothing())


def _of_provider(query: Any, table: Any, account_id: str, provider: str, days: Days) -> Any:
    joined = query.join(ProviderConnection, ProviderConnection.id == table.connection_id)
    mine = (table.account_id == account_id, ProviderConnection.provider == provider)
    return joined.where(*mine, table.day.between(*days), is_last_word(table))


def is_last_word(table: Any) -> ColumnElement[bool]:
    """Match what was pulled, and what was uploaded about days of which nothing was pulled.

    Both are about the same money, and what is pulled is newer. The query joins the connections.
    """
    pulled, other = aliased(ProviderConnection), aliased(table)
    same_day = (
        other.account_id == table.account_id,
        other.day == table.day,
        pulled.provider == ProviderConnection.provider,
        ~pulled.sight.has_key(BY_HAND),
    )
    is_pulled = select(other.id).join(pulled, pulled.id == other.connection_id).where(*same_day)
    correlated = is_pulled.correlate(table, ProviderConnection).exists()
    return or_(~ProviderConnection.sight.has_key(BY_HAND), ~correlated)
