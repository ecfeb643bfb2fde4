"""What providers report: usage and costs of their groups by bucket, names, and the pulls.

The rows of a report's buckets are replaced in one transaction, after all pages have arrived, so
that a row that vanishes at the provider vanishes here, too. Labels are other people's text.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    ForeignKey,
    Identity,
    Index,
    Insert,
    Numeric,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base, Executor, IndexedOwner, Owner, utc_now

SHOWN_PULLS: Final = 50
PERSON: Final = "person"  # a kind of name
# How a pull ended, beside the codes of errors; or that the report was uploaded instead.
DONE, EMPTY, UPLOADED = "done", "empty", "uploaded"
_ROWS_AT_ONCE: Final = 5_000
_USD: Final = Numeric(30, 12)


class _Reported:
    """The columns of every reported row. `is_hourly` rows repeat what the days have."""

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=False), primary_key=True)
    account_id: Mapped[Owner]
    connection_id: Mapped[str] = mapped_column(
        ForeignKey("provider_connections.id", ondelete="CASCADE")
    )
    report: Mapped[str]
    bucket_at: Mapped[datetime]
    day: Mapped[date]
    project_id: Mapped[str]
    key_id: Mapped[str]
    model: Mapped[str]


class ReportedUsage(_Reported, Base):
    """Costs are what our prices make of the counts; None for a model without a price."""

    __tablename__ = "reported_usage"
    __table_args__ = (
        Index("ix_reported_usage_connection", "connection_id", "report", "bucket_at"),
        Index("ix_reported_usage_account", "account_id", "day"),
    )

    is_hourly: Mapped[bool]
    tier: Mapped[str]
    context: Mapped[str]
    region: Mapped[str]
    requests: Mapped[int] = mapped_column(BigInteger)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    cache_write_tokens: Mapped[int] = mapped_column(BigInteger)
    cache_write_1h_tokens: Mapped[int] = mapped_column(BigInteger)
    units: Mapped[dict[str, int]] = mapped_column(JSONB)
    list_usd: Mapped[Decimal | None] = mapped_column(_USD)
    cost_usd: Mapped[Decimal | None] = mapped_column(_USD)


class ReportedCost(_Reported, Base):
    """`amount` is in the row's currency."""

    __tablename__ = "reported_costs"
    __table_args__ = (
        Index("ix_reported_costs_connection", "connection_id", "report", "bucket_at"),
        Index("ix_reported_costs_account", "account_id", "day"),
    )

    kind: Mapped[str]
    line_item: Mapped[str]
    amount: Mapped[Decimal] = mapped_column(Numeric)  # with all digits of a float
    list_amount: Mapped[Decimal | None] = mapped_column(Numeric)
    currency: Mapped[str]


class ReportedActivity(Base):
    """What one person did with a coding agent on one day, in all or, with a model, in tokens.

    The person is a keyed hash. The name is in `reported_names` where the account wants it.
    """

    __tablename__ = "reported_activity"
    __table_args__ = (
        Index("ix_reported_activity_connection", "connection_id", "report", "bucket_at"),
        Index("ix_reported_activity_account", "account_id", "day"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=False), primary_key=True)
    account_id: Mapped[Owner]
    connection_id: Mapped[str] = mapped_column(
        ForeignKey("provider_connections.id", ondelete="CASCADE")
    )
    report: Mapped[str]
    bucket_at: Mapped[datetime]
    day: Mapped[date]
    person_id: Mapped[str]
    plan: Mapped[str]
    terminal: Mapped[str]
    model: Mapped[str]
    sessions: Mapped[int] = mapped_column(BigInteger)
    lines_added: Mapped[int] = mapped_column(BigInteger)
    lines_removed: Mapped[int] = mapped_column(BigInteger)
    commits: Mapped[int] = mapped_column(BigInteger)
    pull_requests: Mapped[int] = mapped_column(BigInteger)
    accepted: Mapped[int] = mapped_column(BigInteger)
    rejected: Mapped[int] = mapped_column(BigInteger)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    cache_write_tokens: Mapped[int] = mapped_column(BigInteger)
    estimated_usd: Mapped[Decimal] = mapped_column(_USD)


class ReportedName(Base):
    __tablename__ = "reported_names"

    connection_id: Mapped[str] = mapped_column(
        ForeignKey("provider_connections.id", ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(primary_key=True)
    name_id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[IndexedOwner]
    name: Mapped[str]
    parent_id: Mapped[str]
    is_active: Mapped[bool] = mapped_column(default=True, server_default=true())


class ConnectionPull(Base):
    """One window of a report: what was requested, and how it ended."""

    __tablename__ = "connection_pulls"
    __table_args__ = (Index("ix_connection_pulls_connection", "connection_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=False), primary_key=True)
    account_id: Mapped[IndexedOwner]
    connection_id: Mapped[str] = mapped_column(
        ForeignKey("provider_connections.id", ondelete="CASCADE")
    )
    report: Mapped[str]
    first_at: Mapped[datetime]
    last_at: Mapped[datetime | None]
    rows: Mapped[int] = mapped_column(default=0)
    requests: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[str]
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime] = mapped_column(default=utc_now)


Table = type[ReportedUsage] | type[ReportedCost] | type[ReportedActivity]


def replace_rows(
    connection: Connection,
    table: Table,
    connection_id: str,
    report: str,
    within: tuple[datetime, datetime | None],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Replace the rows of a report's buckets; without an end, of all later ones."""
    first, last = within
    old = [table.connection_id == connection_id, table.report == report, table.bucket_at >= first]
    if last is not None:
        old.append(table.bucket_at < last)
    connection.execute(delete(table).where(*old))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        connection.execute(_insert_rows(table), {"rows": msgspec.json.encode(some).decode()})


@cache
def _insert_rows(table: Table) -> Insert:
    """Return the statement that inserts rows, which are one parameter.

    As with spend, PostgreSQL reads JSON faster than a parameter for each value.
    """
    names = [each.name for each in table.__table__.columns if each.name != "id"]
    columns = [column(name, table.__table__.c[name].type) for name in names]
    array = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    rows = array.table_valued(*columns).render_derived(with_types=True)
    return insert(table).from_select(names, select(*(rows.c[name] for name in names)))


def list_day(
    connection: Connection, connection_id: str, account_id: str, before: date
) -> Sequence[Any]:
    """Return the rows of the newest reported day before this one, but those by hour."""
    table = ReportedUsage
    mine = (
        table.account_id == account_id,
        table.connection_id == connection_id,
        table.is_hourly.is_(False),
    )
    days = select(table.day).where(*mine, table.day < before).order_by(table.day.desc()).limit(1)
    query = select(*table.__table__.columns).where(*mine, table.day == days.scalar_subquery())
    return connection.execute(query).all()


def set_prices(
    connection: Connection, prices: Sequence[tuple[int, Decimal | None, Decimal | None]]
) -> None:
    """Replace the list price and the own price of rows, given with their IDs."""
    rows = [{"id": row, "list_usd": listed, "cost_usd": own} for row, listed, own in prices]
    names = ("id", "list_usd", "cost_usd")
    columns = [column(name, ReportedUsage.__table__.c[name].type) for name in names]
    array = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    new = array.table_valued(*columns).render_derived(with_types=True)
    changed = update(ReportedUsage).where(ReportedUsage.id == new.c.id)
    values = {"list_usd": new.c.list_usd, "cost_usd": new.c.cost_usd}
    connection.execute(changed.values(values), {"rows": msgspec.json.encode(rows).decode()})


def delete_hours(connection: Connection, connection_id: str, before: datetime) -> None:
    """Delete the rows by hour that are older; those by day stay."""
    old = (ReportedUsage.connection_id == connection_id, ReportedUsage.is_hourly)
    connection.execute(delete(ReportedUsage).where(*old, ReportedUsage.bucket_at < before))


def save_names(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Save the names of projects and keys, with what else is known of them."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        new = upsert(ReportedName).values(list(rows[start : start + _ROWS_AT_ONCE]))
        own = new.excluded
        changed = {"name": own.name, "parent_id": own.parent_id, "is_active": own.is_active}
        keys = ["connection_id", "kind", "name_id"]
        connection.execute(new.on_conflict_do_update(index_elements=keys, set_=changed))


def retire_names(connection: Connection, connection_id: str) -> None:
    """Take the keys and projects as gone; those that are saved afterwards are there again."""
    mine = update(ReportedName).where(ReportedName.connection_id == connection_id)
    connection.execute(mine.values(is_active=False))


def forget_names(connection: Executor, connection_id: str) -> None:
    """Delete what people call their projects and keys, and the texts of line items."""
    connection.execute(delete(ReportedName).where(ReportedName.connection_id == connection_id))
    texts = (ReportedCost.connection_id == connection_id, ReportedCost.line_item != "")
    connection.execute(update(ReportedCost).where(*texts).values(line_item=""))


def forget_people(connection: Executor, connection_id: str) -> None:
    people = (ReportedName.connection_id == connection_id, ReportedName.kind == PERSON)
    connection.execute(delete(ReportedName).where(*people))


def list_names(session: Executor, account_id: str) -> Mapping[tuple[str, str], str]:
    """Return the names of projects and keys, by kind and ID."""
    query = select(ReportedName.kind, ReportedName.name_id, ReportedName.name)
    rows = session.execute(query.where(ReportedName.account_id == account_id))
    return {(row[0], row[1]): row[2] for row in rows}


def list_project_ids(session: Executor, connection_id: str) -> Sequence[str]:
    mine = (ReportedName.connection_id == connection_id, ReportedName.kind == "project")
    return session.execute(select(ReportedName.name_id).where(*mine)).scalars().all()


def add_pull(connection: Executor, **values: Any) -> None:
    connection.execute(insert(ConnectionPull).values(**values))


def list_pulls(session: Executor, account_id: str, connection_id: str) -> Sequence[Any]:
    """Return the latest pulls of a connection, newest first."""
    mine = (
        ConnectionPull.account_id == account_id,
        ConnectionPull.connection_id == connection_id,
    )
    query = select(*ConnectionPull.__table__.columns).where(*mine)
    return session.execute(query.order_by(ConnectionPull.id.desc()).limit(SHOWN_PULLS)).all()


def delete_old_pulls(connection: Connection, days: int, limit: int) -> int:
    """Delete some pulls that ended longer ago; return their number."""
    old = (
        select(ConnectionPull.id)
        .where(ConnectionPull.ended_at < func.now() - func.make_interval(0, 0, 0, days))
        .limit(limit)
    )
    return connection.execute(delete(ConnectionPull).where(ConnectionPull.id.in_(old))).rowcount
