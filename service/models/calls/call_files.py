"""The catalog of an account's call files. Every accepted call is in exactly one live file.

The frame of an audit is a file of level `IMPORT` at first. Compaction replaces files by fewer: one
transaction marks the old files as replaced and adds the new files, whose blobs exist before it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Row,
    SmallInteger,
    Text,
    and_,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Mapped, Session, mapped_column

from detectors.contract import DailySpend
from service.models.base import Base, IndexedOwner, Owned, new_id
from service.models.calls.daily_spend import add_spend, drop_spend

# So many files of one level of an open day become one of the next.
FAN_IN: Final = 6
# Late calls of a closed day are merged into its file once no more have come for a while.
QUIET: Final = timedelta(minutes=10)
# A merged file of an open day is one level above the files that it replaces. So is one of late
# calls, which wait from level `LATE` on.
IMPORT: Final = 0
LATE: Final = 50
DAY: Final = 100
MONTH: Final = 101
LOST: Final = "lost"
_LIVE: Final = text("replaced_at IS NULL")
_PURGED: Final = text("purged_at IS NOT NULL")
_UNMERGED: Final = text(f"replaced_at IS NULL AND level < {DAY}")
_ZONE: Final = text("coalesce(split_part(priced_with, '|', 3), '')")


class CallFile(Owned, Base):
    """A file of calls, which a window of days reads if its days overlap."""

    __tablename__ = "call_files"
    __table_args__ = (
        Index("ix_call_files_live", "account_id", "first_day", postgresql_where=_LIVE),
        # What compaction may be due for; it contains only the files of the last days.
        Index("ix_call_files_unmerged", "account_id", postgresql_where=_UNMERGED),
        # By whose days the spend is summed, which `name_prices` writes behind the prices.
        Index("ix_call_files_zone", "account_id", _ZONE, postgresql_where=_LIVE),
        Index("ix_call_files_purged_zone", "account_id", _ZONE, postgresql_where=_PURGED),
    )

    blob_key: Mapped[str] = mapped_column(index=True)
    level: Mapped[int] = mapped_column(SmallInteger)
    # The import of a file of level `IMPORT`; the calls of other files name theirs.
    import_id: Mapped[str | None]
    first_day: Mapped[date]
    last_day: Mapped[date]
    calls: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    imports: Mapped[int] = mapped_column(default=1)
    duplicates: Mapped[int] = mapped_column(BigInteger, default=0)  # dropped from this file so far
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    replaced_at: Mapped[datetime | None]
    # The prices of its spend, and a digest of the rates; null if it is to be summed again.
    priced_with: Mapped[str | None]
    rates: Mapped[str | None]
    purged_at: Mapped[datetime | None]  # nothing replaces its calls, but their spend stays


def zone_of_spend() -> ColumnElement[str]:
    """Return the zone of the days of a file's spend, "" for UTC, as the indexes have it."""
    separator, third = literal_column("'|'", Text), literal_column("3", Integer)
    zone = func.split_part(CallFile.priced_with, separator, third)
    return func.coalesce(zone, literal_column("''", Text))


def is_lost() -> ColumnElement[bool]:
    """Match files without a blob, whose spend has UTC days and earlier prices.

    Like the zone, that is a part of the name of their prices.
    """
    return func.split_part(CallFile.priced_with, "|", 4) == LOST


class CallImport(Base):
    """What an audit brought to its account's calls; a later reading of it may replace that."""

    __tablename__ = "call_imports"
    __table_args__ = (
        # A file that is uploaded again adds no calls.
        Index(
            "uq_call_imports_file",
            "account_id",
            "file_hash",
            unique=True,
            postgresql_where=text("file_hash IS NOT NULL"),
        ),
    )

    audit_id: Mapped[str] = mapped_column(primary_key=True)  # kept when its audit is deleted
    account_id: Mapped[IndexedOwner]
    import_id: Mapped[str]  # one for each reading whose calls differ
    content_hash: Mapped[bytes] = mapped_column(LargeBinary)  # SHA-256 of the frame
    file_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # of an upload's records
    calls: Mapped[int] = mapped_column(BigInteger)
    first_day: Mapped[date | None]
    last_day: Mapped[date | None]


class ReplacedImport(Base):
    """A reading that was replaced; compaction leaves its calls out, and then deletes the row."""

    __tablename__ = "replaced_imports"

    import_id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[IndexedOwner]
    first_day: Mapped[date]
    last_day: Mapped[date]


Hash = bytes  # `NewImport` has a field with this name


@dataclass(frozen=True, kw_only=True)
class NewImport:
    """The frame of an audit that is published, and the spend of its calls."""

    account_id: str
    audit_id: str
    import_id: str
    blob_key: str
    content_hash: bytes
    first_day: date | None
    last_day: date | None
    calls: int
    bytes: int
    spend: Sequence[DailySpend]
    file_hash: Hash | None = None
    priced_with: str | None = None


def add_imports(connection: Connection, imports: Sequence[NewImport]) -> None:
    """Add the calls of published audits, or replace what an earlier reading of them brought."""
    audit_ids = [each.audit_id for each in imports]
    query = select(CallImport).where(CallImport.audit_id.in_(audit_ids))
    earlier = {row.audit_id: row for row in connection.execute(query)}
    replaced = _replace_frames(connection, [row.import_id for row in earlier.values()])
    new = []
    for each in imports:
        before = earlier.get(each.audit_id)
        if before is not None and before.import_id not in replaced:
            if before.content_hash == each.content_hash:
                continue  # these calls are in a merged file already
            if before.calls:
                of_import = ("import_id", "account_id", "first_day", "last_day")
                row = {name: getattr(before, name) for name in of_import}
                connection.execute(insert(ReplacedImport).values(row))
        new.append(each)
    _insert_imports(connection, new)
    if earlier:
        new = _without_deleted(connection, new)
    names = (
        *("account_id", "import_id", "blob_key"),
        *("first_day", "last_day", "calls", "bytes", "priced_with"),
    )
    files: dict[str, dict[str, Any]] = {
        each.audit_id: {"id": new_id(), "level": IMPORT, "imports": 1, "duplicates": 0}
        | {name: getattr(each, name) for name in names}
        for each in new
        if each.calls
    }
    add_files(connection, list(files.values()))
    add_spend(
        connection,
        [(files[each.audit_id]["id"], each.account_id, each.spend) for each in new if each.calls],
    )


def _replace_frames(connection: Connection, import_ids: Sequence[str]) -> set[str]:
    """Replace the files that are still the frame of an import; return these imports."""
    if not import_ids:
        return set()
    is_frame = (CallFile.level == IMPORT, CallFile.import_id.in_(import_ids))
    statement = update(CallFile).where(*is_frame, CallFile.replaced_at.is_(None))
    replaced = statement.values(replaced_at=func.now()).returning(CallFile.id, CallFile.import_id)
    rows = connection.execute(replaced).all()
    drop_spend(connection, [row.id for row in rows])
    return {row.import_id for row in rows}


def _insert_imports(connection: Connection, imports: Sequence[NewImport]) -> None:
    names = (
        *("audit_id", "account_id", "import_id", "content_hash", "file_hash"),
        *("calls", "first_day", "last_day"),
    )
    rows = [{name: getattr(each, name) for name in names} for each in imports]
    if rows:
        statement = upsert(CallImport)
        changed = {name: statement.excluded[name] for name in names[1:]}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["audit_id"], set_=changed), rows
        )


def _without_deleted(connection: Connection, imports: Sequence[NewImport]) -> list[NewImport]:
    """Leave out the spend of days that their account has deleted; compaction drops the calls."""
    own = DeletedCalls.audit_id.in_([each.audit_id for each in imports])
    days = (DeletedCalls.audit_id, DeletedCalls.first_day, DeletedCalls.last_day)
    pending = update(DeletedCalls).where(own).values(applied_at=None).returning(*days)
    deleted = defaultdict[str, list[tuple[date, date]]](list)
    for audit_id, first, last in connection.execute(pending):
        deleted[audit_id].append((first, last))
    left = []
    for each in imports:
        spend = [
            line
            for line in each.spend
            if not any(first <= line.day <= last for first, last in deleted[each.audit_id])
        ]
        calls = sum(line.calls for line in spend) if deleted[each.audit_id] else each.calls
        left.append(replace(each, spend=spend, calls=calls))
    return left


def add_files(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add live files to the catalog."""
    if rows:
        connection.execute(insert(CallFile), list(rows))


def replace_files(connection: Connection, file_ids: Sequence[str]) -> bool:
    """Mark the files as replaced and drop their spend; False if one of them no longer is live.

    The caller then rolls the transaction back.
    """
    live = (CallFile.id.in_(file_ids), CallFile.replaced_at.is_(None))
    statement = update(CallFile).where(*live).values(replaced_at=func.now())
    # The rows are locked first, so that no other transaction changes their spend.
    replaced = connection.execute(statement).rowcount
    drop_spend(connection, file_ids)
    return replaced == len(file_ids)


def list_live(connection: Connection, account_id: str) -> Sequence[Row[Any]]:
    """Return the live files of an account, oldest first."""
    live = (CallFile.account_id == account_id, CallFile.replaced_at.is_(None))
    query = select(CallFile).where(*live)
    return connection.execute(query.order_by(CallFile.first_day, CallFile.id)).all()


def is_live(connection: Connection, file_id: str) -> bool:
    """Check whether the file is in the catalog and was not replaced."""
    live = (CallFile.id == file_id, CallFile.replaced_at.is_(None))
    return connection.scalar(select(CallFile.id).where(*live)) is not None


def list_blob_keys(session: Session, account_id: str) -> Sequence[str]:
    """Return the keys of all files of an account, of those that were replaced as well."""
    return session.scalars(select(CallFile.blob_key).where(CallFile.account_id == account_id)).all()


def list_stored_keys(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Return those of the blob keys that live files name."""
    named = (CallFile.blob_key.in_(keys), CallFile.replaced_at.is_(None))
    return set(connection.scalars(select(CallFile.blob_key).where(*named)))


def list_replaced_imports(connection: Connection, account_id: str) -> Sequence[Row[Any]]:
    """Return the readings whose calls compaction must leave out."""
    query = select(ReplacedImport).where(ReplacedImport.account_id == account_id)
    return connection.execute(query).all()


def drop_replaced_imports(connection: Connection, import_ids: Sequence[str]) -> None:
    """Forget replaced readings, once no live file has their calls."""
    if import_ids:
        connection.execute(delete(ReplacedImport).where(ReplacedImport.import_id.in_(import_ids)))


def list_due(connection: Connection, today: date, limit: int) -> Sequence[str]:
    """Return accounts whose files compaction may merge.

    They have calls of a day that is over or has not begun, many imports, or calls of a replaced
    reading or that were deleted.
    """
    is_quiet = CallFile.created_at < func.now() - QUIET
    is_other_day = or_(CallFile.last_day < today, CallFile.first_day > today)
    is_over = func.bool_or(and_(is_other_day, is_quiet))
    has_many = func.count().filter(CallFile.level == IMPORT) >= FAN_IN
    unmerged = (
        select(CallFile.account_id)
        .where(CallFile.replaced_at.is_(None), CallFile.level < LATE)
        .group_by(CallFile.account_id)
        .having(or_(is_over, has_many))
    )
    deleted = select(DeletedCalls.account_id).where(DeletedCalls.applied_at.is_(None))
    either = unmerged.union(select(ReplacedImport.account_id), deleted).limit(limit)
    return connection.scalars(either).all()


class DeletedCalls(Base):
    """The deletion of what one import has brought on some days."""

    __tablename__ = "deleted_calls"
    __table_args__ = (
        Index(
            "ix_deleted_calls_pending", "account_id", postgresql_where=text("applied_at IS NULL")
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    account_id: Mapped[IndexedOwner]
    audit_id: Mapped[str] = mapped_column(index=True)
    first_day: Mapped[date]
    last_day: Mapped[date]
    applied_at: Mapped[datetime | None]  # null while a file may still have the calls
