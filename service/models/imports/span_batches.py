"""Spans that were acknowledged and are not in an import yet: a row for each request.

An import of an account is cut from them by time and size, so that exporters, which send every few
seconds, don't lead to an audit each.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    ForeignKey,
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
)
from sqlalchemy.orm import Mapped, aliased, mapped_column

from service.models.base import Base
from service.models.calls.call_files import CallImport
from service.models.imports.span_keys import LINK

# An import waits so long for more spans, and the first of an account only so long.
IMPORT_AGE: Final = timedelta(hours=1)
FIRST_IMPORT_AGE: Final = timedelta(minutes=1)
# So many calls and links are cut into an import at once; it bounds the memory that closing takes.
MAX_CALLS: Final = 100_000
MAX_LINKS: Final = 200_000
# Keys and links of spans are kept so long, for spans that are sent again or end late.
CARRIED_FOR: Final = timedelta(hours=1)


class SpanBatch(Base):
    """The calls of one request; without any, its links, or keys that an import has counted."""

    __tablename__ = "span_batches"
    __table_args__ = (Index("ix_span_batches_account", "account_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    client: Mapped[str | None]  # the name of the ingest key
    environment: Mapped[str | None]  # of all calls; null if they have none, or several
    received_at: Mapped[datetime] = mapped_column(server_default=func.now())
    calls: Mapped[int]
    size: Mapped[int] = mapped_column(BigInteger)  # of the three below
    lines: Mapped[bytes] = mapped_column(LargeBinary)  # records as JSON Lines, zlib
    keys: Mapped[bytes] = mapped_column(LargeBinary)  # of the records, in their order
    links: Mapped[bytes] = mapped_column(LargeBinary)  # of spans between calls


def list_accounts_due(
    connection: Connection, limit: int, without: Collection[str] = ()
) -> Sequence[str]:
    """Return accounts whose spans have waited long enough, or are enough for an import."""
    oldest = func.min(SpanBatch.received_at)
    has_imports = select(CallImport.audit_id).where(CallImport.account_id == SpanBatch.account_id)
    is_first = and_(oldest < func.now() - FIRST_IMPORT_AGE, ~has_imports.exists())
    is_due = or_(oldest < func.now() - IMPORT_AGE, func.sum(SpanBatch.calls) >= MAX_CALLS, is_first)
    waiting = select(SpanBatch.account_id).where(SpanBatch.calls > 0)
    if without:
        waiting = waiting.where(SpanBatch.account_id.not_in(without))
    due = waiting.group_by(SpanBatch.account_id).having(is_due).order_by(oldest)
    return connection.scalars(due.limit(limit)).all()


def take_batches(connection: Connection, account_id: str) -> Sequence[Any]:
    """Delete and return the oldest batches of an account, in order, up to a number of spans.

    A batch is taken if those before it have fewer calls and fewer links than an import may have.
    Keys that an import has counted are always taken, although the calls that waited are older.
    """
    own_links = func.octet_length(SpanBatch.links) / LINK.size
    counts = {"calls": SpanBatch.calls, "links": own_links}
    before = [
        (func.sum(count).over(order_by=SpanBatch.id) - count).label(name)
        for name, count in counts.items()
    ]
    has_counted = and_(SpanBatch.calls == 0, func.octet_length(SpanBatch.keys) > 0)
    columns = (SpanBatch.id, has_counted.label("has_counted"), *before)
    mine = select(*columns).where(SpanBatch.account_id == account_id).subquery()
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


def delete_carried(connection: Connection) -> int:
    """Delete keys and links that are no longer needed: no call of their account waits."""
    is_old = SpanBatch.received_at < func.now() - CARRIED_FOR
    waiting = aliased(SpanBatch)
    is_needed = exists().where(waiting.account_id == SpanBatch.account_id, waiting.calls > 0)
    unneeded = delete(SpanBatch).where(SpanBatch.calls == 0, is_old, ~is_needed)
    return connection.execute(unneeded).rowcount
