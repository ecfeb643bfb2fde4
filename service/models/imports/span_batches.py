"""Spans that were acknowledged and are not in an import yet: a row for each request.

An import of an account is cut from them by time and size, so that exporters, which send every few
seconds, don't lead to an audit each. A row without anything asks for an import of those before it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Identity,
    Index,
    LargeBinary,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from service.models.base import Base, Executor, Owner
from service.models.imports.span_keys import KEY, LINK

# An account that sends spans all the time gets an import so often, unless it asks for one.
IMPORT_AGE: Final = timedelta(hours=1)
# Spans wait at least so long. Programs export every five seconds, each at a time of its own, and
# the spans of a trace must be compared with each other.
LEAST_AGE: Final = timedelta(seconds=10)
# Usage that may be of calls inside is held so long after its span's end, in case that calls go on:
# what is imported is not taken back.
HELD_FOR: Final = timedelta(minutes=2)
# So many calls and links are cut into an import at once; it bounds the memory that closing takes.
MAX_CALLS: Final = 100_000
MAX_LINKS: Final = 200_000
# Keys and links of spans are kept so long, for spans that are sent again or end late.
CARRIED_FOR: Final = timedelta(hours=24)


class SpanBatch(Base):
    """The calls of one request; without any, its links, or keys that an import has counted.

    A row of size 0 is a request for an import.
    """

    __tablename__ = "span_batches"
    __table_args__ = (Index("ix_span_batches_account", "account_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    account_id: Mapped[Owner]
    client: Mapped[str | None]  # the name of the ingest key
    environment: Mapped[str | None]  # of all calls; null if they have none, or several
    received_at: Mapped[datetime] = mapped_column(server_default=func.now())
    calls: Mapped[int]
    size: Mapped[int] = mapped_column(BigInteger)  # of the three below
    lines: Mapped[bytes] = mapped_column(LargeBinary)  # records as JSON Lines, zlib
    keys: Mapped[bytes] = mapped_column(LargeBinary)  # of the records, in their order
    links: Mapped[bytes] = mapped_column(LargeBinary)  # of spans between calls


_HAS_COUNTED: Final = and_(SpanBatch.calls == 0, func.octet_length(SpanBatch.keys) > 0)
_IS_REQUEST: Final = SpanBatch.size == 0


def _is_old_enough() -> ColumnElement[bool]:
    return SpanBatch.received_at <= func.now() - LEAST_AGE


def list_accounts_due(
    connection: Connection, limit: int, without: Collection[str] = ()
) -> Sequence[str]:
    """Return accounts with spans of which an import is to be made now.

    These are the accounts that ask for one, that have enough calls for one, or had none within
    the last hour.
    """
    oldest = func.min(SpanBatch.received_at).filter(SpanBatch.calls > 0)
    counted_at = func.max(SpanBatch.received_at).filter(_HAS_COUNTED)
    an_hour_ago = func.now() - IMPORT_AGE
    is_due = or_(
        oldest <= an_hour_ago,
        func.coalesce(counted_at, an_hour_ago) <= an_hour_ago,
        func.sum(SpanBatch.calls) >= MAX_CALLS,
        func.bool_or(and_(_IS_REQUEST, _is_old_enough())),
    )
    due = select(SpanBatch.account_id).where(SpanBatch.account_id.not_in(without))
    due = due.group_by(SpanBatch.account_id).having(oldest <= func.now() - LEAST_AGE, is_due)
    return connection.scalars(due.order_by(oldest).limit(limit)).all()


class WaitingSpans(NamedTuple):
    """The calls of an account that no import has yet; `is_requested` if it asks for one."""

    calls: int
    import_by: datetime | None  # the time of their import, if none is requested and few are sent
    is_requested: bool


def find_waiting(session: Executor, account_id: str) -> WaitingSpans:
    oldest = func.min(SpanBatch.received_at).filter(SpanBatch.calls > 0)
    calls = func.coalesce(func.sum(SpanBatch.calls), 0)
    is_requested = func.coalesce(func.bool_or(_IS_REQUEST), False)
    query = select(calls, oldest + IMPORT_AGE, is_requested)
    return WaitingSpans(*session.execute(query.where(SpanBatch.account_id == account_id)).one())


def request_import(session: Session, account_id: str) -> int:
    """Ask the sweeper for an import of the spans that wait; return the number of their calls."""
    waiting = find_waiting(session, account_id)
    if waiting.calls and not waiting.is_requested:
        mine = update(SpanBatch).where(SpanBatch.account_id == account_id)
        is_held = SpanBatch.received_at > func.now()
        session.execute(mine.where(is_held).values(received_at=func.now()))
        row = {"account_id": account_id, "calls": 0, "size": 0}
        session.execute(insert(SpanBatch).values(lines=b"", keys=b"", links=b"", **row))
    return waiting.calls


def is_import_requested(connection: Connection, account_id: str) -> bool:
    request = exists().where(SpanBatch.account_id == account_id, _IS_REQUEST)
    return bool(connection.scalar(select(request)))


def take_batches(connection: Connection, account_id: str) -> Sequence[Any]:
    """Delete and return the oldest batches of an account, in order, up to a number of spans.

    Those of the last seconds stay: see `LEAST_AGE`.
    A batch is taken if those before it have fewer calls and fewer links than an import may have.
    Keys that an import has counted are always taken, although the calls that waited are older.
    """
    own_links = func.octet_length(SpanBatch.links) / LINK.size
    counts = {"calls": SpanBatch.calls, "links": own_links}
    before = [
        (func.sum(count).over(order_by=SpanBatch.id) - count).label(name)
        for name, count in counts.items()
    ]
    columns = (SpanBatch.id, _HAS_COUNTED.label("has_counted"), *before)
    is_taken = and_(SpanBatch.account_id == account_id, or_(_HAS_COUNTED, _is_old_enough()))
    mine = select(*columns).where(is_taken).subquery()
    has_room = and_(mine.c.calls < MAX_CALLS, mine.c.links < MAX_LINKS)
    first = select(mine.c.id).where(or_(mine.c.has_counted, has_room))
    is_recent = (SpanBatch.received_at > func.now() - CARRIED_FOR).label("is_recent")
    returned = (*SpanBatch.__table__.columns, is_recent)
    taken = delete(SpanBatch).where(SpanBatch.id.in_(first)).returning(*returned)
    rows = connection.execute(taken).all()
    return sorted(rows, key=lambda row: row.id)


def carry_keys(connection: Connection, account_id: str, keys: bytes, links: bytes) -> None:
    """Keep the keys of counted spans for the next import."""
    row = {"account_id": account_id, "calls": 0, "lines": b"", "keys": keys, "links": links}
    connection.execute(insert(SpanBatch).values(size=len(keys) + len(links), **row))


def hold_calls(connection: Connection, row: Any, lines: bytes, keys: bytes) -> None:
    """Keep some calls of a batch for a later import."""
    calls = len(keys) // KEY.size
    held = {"account_id": row.account_id, "client": row.client, "environment": row.environment}
    held |= {"received_at": row.received_at + HELD_FOR, "calls": calls, "lines": lines}
    size = len(lines) + len(keys)
    connection.execute(insert(SpanBatch).values(keys=keys, links=b"", size=size, **held))


def delete_carried(connection: Connection) -> int:
    """Delete keys and links that are no longer needed: no call of their account waits."""
    is_old = SpanBatch.received_at < func.now() - CARRIED_FOR
    waiting = aliased(SpanBatch)
    is_needed = exists().where(waiting.account_id == SpanBatch.account_id, waiting.calls > 0)
    unneeded = delete(SpanBatch).where(SpanBatch.calls == 0, is_old, ~is_needed)
    return connection.execute(unneeded).rowcount
