"""Idempotency keys: one key of an account is one audit, however often it is sent.

Keys are found by their SHA-256. Their text is kept only while the previous release, which needs it,
may still run: see `migrations/versions/0039_idempotency_key_hashes.py`.
"""

from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, cast

from sqlalchemy import (
    Connection,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    bindparam,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, mapped_column

from service.models.audits.audits import Audit
from service.models.base import Base, Executor, OwnerKey, utc_now

_HASHED: Final = "§"  # what a replaced key begins with; those of callers are ASCII
_HAS_TEXT: Final = f"key NOT LIKE '{_HASHED}%'"


class IdempotencyKey(Base):
    """An idempotency key, stored as long as its audit."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        Index("uq_idempotency_keys_hash", "account_id", "route", "key_hash", unique=True),
        Index("ix_idempotency_keys_text", "created_at", postgresql_where=text(_HAS_TEXT)),
    )

    account_id: Mapped[OwnerKey]
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)  # a trigger replaces it by its hash
    key_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # by the trigger
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), index=True)
    body_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # SHA-256 of an upload's file
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


# Each batch needs them, and making a statement takes longer than running it.
_ADD: Final = insert(cast("Table", Audit.__table__))
_KEYS: Final = cast("Table", IdempotencyKey.__table__)
_CLAIM: Final = insert(_KEYS).on_conflict_do_nothing().returning(_KEYS.c.audit_id)
_FIND: Final = select(_KEYS.c.audit_id, _KEYS.c.body_hash).where(
    *(_KEYS.c[name] == bindparam(name) for name in ("account_id", "route", "key_hash"))
)


class Replay(NamedTuple):
    """The earlier audit of an idempotency key."""

    audit_id: str
    body_hash: bytes | None


class KeyTakenError(Exception):
    """Another audit of the account has the idempotency key."""

    def __init__(self, earlier: Replay) -> None:
        super().__init__(f"the key belongs to audit {earlier.audit_id}")
        self.earlier = earlier


def hash_key(key: str) -> bytes:
    return sha256(key.encode()).digest()


def hash_old_keys(connection: Connection, limit: int) -> int:
    """Replace the text of some keys that the previous release may have needed; count them."""
    hashed_from = func.idempotency_keys_hashed_from()
    columns = (_KEYS.c.account_id, _KEYS.c.route, _KEYS.c.key)
    old = select(*columns).where(text(_HAS_TEXT), func.now() >= hashed_from)
    some = old.order_by(_KEYS.c.created_at).limit(limit).subquery()
    same = (column == some.c[column.name] for column in columns)
    hashed = func.concat(_HASHED, func.encode(_KEYS.c.key_hash, "hex"))
    return connection.execute(update(_KEYS).where(*same).values(key=hashed)).rowcount


def find_replay(connection: Executor, account_id: str, route: str, key: str) -> Replay | None:
    """Return the earlier audit of the account's key, if any."""
    wanted = {"account_id": account_id, "route": route, "key_hash": hash_key(key)}
    row = connection.execute(_FIND, wanted).one_or_none()
    return None if row is None else Replay(*row)


def add_audit(
    connection: Executor,
    audit: Audit,
    route: str,
    key: str | None,
    *,
    body_hash: bytes | None = None,
) -> None:
    """Insert the audit's row and, if there is a key, assign it to this audit and its body.

    Raises `KeyTakenError` if another audit has the key. If another transaction is inserting the
    same key, this one waits: it fails if the other commits and succeeds if the other rolls back.
    """
    # The audit's row comes first, because the key's row refers to it. It is added without the unit
    # of work, which would take twice as long and send each of the many columns.
    connection.execute(_ADD, {name: value for name, value in vars(audit).items() if name[0] != "_"})
    if key is None:
        return
    row = {"account_id": audit.account_id, "route": route, "key": key, "audit_id": audit.id}
    if connection.scalar(_CLAIM, {**row, "body_hash": body_hash}) is None:
        earlier = find_replay(connection, audit.account_id, route, key)
        assert earlier is not None, "the key's owner has committed"  # noqa: S101 - an invariant
        raise KeyTakenError(earlier)
