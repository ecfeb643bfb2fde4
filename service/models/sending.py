"""What mails and notices have in common: each is a row first, and a job writes and sends it.

A row never contains a secret: links and signatures are made when it is sent. Each attempt is a
claim with a lease and a token, like an audit's attempt; all times are the database's.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, TypeVar
from uuid import uuid4

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    Index,
    Row,
    Update,
    and_,
    case,
    false,
    func,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, from_now, new_id, utc_now

QUEUED: Final = "queued"
SENDING: Final = "sending"
FAILED: Final = "failed"
# Errors, beside the types of exceptions.
EXPIRED: Final = "expired"
GIVEN_UP: Final = "given up"

_LONGEST_EFFORT: Final = timedelta(days=1)
_FIRST_PAUSE_SECONDS: Final = 5.0
_PAGE: Final = 1_000
NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}


class Outgoing(Base):
    """A row to send. A kind says when it can be sent and what follows from an attempt."""

    __abstract__ = True

    NAME: ClassVar[str]  # in logs and metrics
    ID_NAME: ClassVar[str]
    SENT: ClassVar[str]  # the status of what was sent
    FAILED_ACTION: ClassVar[str]  # what metrics call a row that the sweeper gives up, or wakes
    WOKEN_ACTION: ClassVar[str]
    PAUSE_FACTOR: ClassVar[int]  # by which pauses grow with each attempt
    LONGEST_PAUSE_SECONDS: ClassVar[float]
    NO_RESPONSE: ClassVar[Mapping[str, None]] = {}  # what an attempt without a response leaves

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    kind: Mapped[str]
    status: Mapped[str] = mapped_column(default=QUEUED)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    queued_at: Mapped[datetime] = mapped_column(default=func.now())  # or sent again by a person
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[datetime] = mapped_column(default=func.now())
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    error: Mapped[str | None]  # the type of the last failure, never its text

    @classmethod
    def statuses(cls) -> tuple[str, ...]:
        return (QUEUED, SENDING, cls.SENT, FAILED)

    @classmethod
    def is_unsent(cls) -> ColumnElement[bool]:
        return cls.status.in_((QUEUED, SENDING))

    @classmethod
    def is_ready(cls) -> ColumnElement[bool]:
        return true()

    @classmethod
    def is_expired(cls) -> ColumnElement[bool]:
        return false()

    def after_success(self, connection: Connection) -> None:
        """Do what follows, in the transaction; as the other methods do."""

    def after_pause(self, connection: Connection) -> None: ...

    def after_failure(self, connection: Connection) -> None: ...

    def after_giving_up(self, connection: Connection) -> None: ...


Sent = TypeVar("Sent", bound=Outgoing)


def table_args(table: str, sent: str) -> tuple[CheckConstraint, Index]:
    """Return the check of a table's status, and the index of what isn't sent."""
    unsent = text(f"status IN ('{QUEUED}', '{SENDING}')")
    columns = ("next_attempt_at", "id")
    return (
        CheckConstraint(f"status IN {(QUEUED, SENDING, sent, FAILED)}", name="status"),
        Index(f"ix_{table}_unsent", *columns, postgresql_where=unsent),
    )


def claim(
    connection: Connection, table: type[Sent], row_id: str, lease_seconds: float
) -> Sent | None:
    """Claim a row if it is due or its lease has expired; its `attempts` include this one."""
    is_due = and_(table.status == QUEUED, table.next_attempt_at <= func.now())
    is_free = and_(or_(is_due, _is_dropped(table)), table.is_ready())
    claimed = update(table).where(table.id == row_id, is_free, ~_is_overdue(table))
    lease = {"lease_token": uuid4().hex, "lease_expires_at": from_now(lease_seconds)}
    rows = _change(
        connection, table, claimed.values(status=SENDING, attempts=table.attempts + 1, **lease)
    )
    return rows[0] if rows else None


def finish(connection: Connection, row: Outgoing, **values: Any) -> bool:
    """Mark a row as sent, even if another worker has claimed it since.

    Return False if it was deleted with its account.
    """
    table = type(row)
    sent = {"status": table.SENT, "sent_at": func.now(), "error": None, **NO_LEASE, **values}
    is_known = connection.execute(update(table).where(table.id == row.id).values(sent)).rowcount > 0
    row.after_success(connection)
    return is_known


def postpone(connection: Connection, row: Outgoing, error: str, **values: Any) -> None:
    """Schedule another attempt, after a pause that grows with each attempt."""
    pause = _FIRST_PAUSE_SECONDS * row.PAUSE_FACTOR ** (row.attempts - 1)
    next_at = from_now(min(pause, row.LONGEST_PAUSE_SECONDS))
    again: dict[str, Any] = {"status": QUEUED, "next_attempt_at": next_at, "error": error}
    again |= {**NO_LEASE, **row.NO_RESPONSE, **values}
    if connection.execute(_held(row).values(again)).rowcount:
        row.after_pause(connection)


def fail(connection: Connection, row: Outgoing, error: str, **values: Any) -> None:
    failed = {"status": FAILED, "error": error, **NO_LEASE, **row.NO_RESPONSE, **values}
    if connection.execute(_held(row).values(failed)).rowcount:
        row.after_failure(connection)


def fail_overdue(connection: Connection, table: type[Outgoing]) -> Sequence[str]:
    """Fail what expired, or failed for a day, and no worker is sending; return the IDs."""
    reason = case((table.is_expired(), EXPIRED), else_=GIVEN_UP)
    overdue = update(table).where(is_waiting(table), _is_overdue(table))
    rows = _change(
        connection, table, overdue.values({"status": FAILED, "error": reason, **NO_LEASE})
    )
    for row in rows:
        row.after_giving_up(connection)
    return [row.id for row in rows]


def list_due(
    connection: Connection, table: type[Outgoing], older_than_seconds: float
) -> Sequence[Row[str, int]]:
    """Return the IDs and attempts of rows that are due, longest due first."""
    is_due = and_(table.status == QUEUED, table.next_attempt_at < from_now(-older_than_seconds))
    due = select(table.id, table.attempts).where(
        table.is_unsent(), or_(is_due, _is_dropped(table)), table.is_ready()
    )
    return connection.execute(due.order_by(table.next_attempt_at, table.id).limit(_PAGE)).all()


def is_waiting(table: type[Outgoing]) -> ColumnElement[bool]:
    """Match what isn't sent, and what no worker is sending."""
    return and_(table.is_unsent(), or_(table.status == QUEUED, _is_dropped(table)))


def _is_dropped(table: type[Outgoing]) -> ColumnElement[bool]:
    return and_(table.status == SENDING, table.lease_expires_at < func.now())


def _is_overdue(table: type[Outgoing]) -> ColumnElement[bool]:
    return or_(table.is_expired(), table.queued_at <= func.now() - _LONGEST_EFFORT)


def _held(row: Outgoing) -> Update:
    """Return an UPDATE that matches only while the token holds the row (the fence)."""
    table = type(row)
    mine = (table.id == row.id, table.lease_token == row.lease_token)
    return update(table).where(table.is_unsent(), *mine)


def _change(connection: Connection, table: type[Sent], statement: Update) -> Sequence[Sent]:
    """Return the changed rows, which belong to no session."""
    with Session(connection, join_transaction_mode="rollback_only") as session:
        unsynchronized = {"synchronize_session": False}
        return session.scalars(statement.returning(table), execution_options=unsynchronized).all()
