"""The declarative base and the types that all tables share."""

from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Annotated
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, DateTime, ForeignKey, MetaData, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, Session, mapped_column

# Predictable names, so that migrations can refer to constraints.
_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def _owner(**options: bool) -> MappedColumn[str]:
    return mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), **options)  # type: ignore[arg-type]


# The account that a row belongs to and is deleted with: alone, indexed, or in the primary key.
Owner = Annotated[str, _owner()]
IndexedOwner = Annotated[str, _owner(index=True)]
OwnerKey = Annotated[str, _owner(primary_key=True)]


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {datetime: DateTime(timezone=True)}


# What runs statements that load no objects.
Executor = Session | Connection


class Lock(IntEnum):
    """What transactions wait for each other to do. The numbers are arbitrary, and never reused."""

    UPLOAD_COPIES = 725_503  # of an account
    SIGN_IN_LINKS = 725_504  # of an address
    REPORT_MAILS = 725_505  # of an account
    QUEUED_AUDITS = 725_506  # of an account
    LARGE_EXPORTS = 725_507  # of an account
    REPORTED_SPEND = 725_508  # of an account
    AGENT_TOTALS = 725_509  # of an account


def take_lock(connection: Executor, lock: Lock, name: str) -> None:
    """Wait until no other transaction has the lock of this name, and keep it until this one ends.

    Code that counts rows before it adds one needs it: two that count at once would both find room.
    """
    connection.execute(select(func.pg_advisory_xact_lock(lock, func.hashtext(name))))


def try_lock(connection: Executor, lock: Lock, name: str, *, until_closed: bool = False) -> bool:
    """Take a lock until the transaction or the connection ends; return False if another has it."""
    take = func.pg_try_advisory_lock if until_closed else func.pg_try_advisory_xact_lock
    return bool(connection.scalar(select(take(lock, func.hashtext(name)))))


def new_id() -> str:
    """Return a new random ID."""
    return uuid4().hex


def utc_now() -> datetime:
    return datetime.now(UTC)


def from_now(seconds: float) -> ColumnElement[datetime]:
    """Return the time so many seconds from now, by the database's clock."""
    return func.now() + timedelta(seconds=seconds)


class Owned:
    """The columns of a row that belongs to an account and is deleted with it."""

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[IndexedOwner]
