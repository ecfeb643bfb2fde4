"""Idempotency keys: one key of an account is one audit, however often it is sent."""

from datetime import datetime
from typing import Final, NamedTuple, cast

from sqlalchemy import ForeignKey, LargeBinary, Table, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import Audit
from service.models.base import Base, utc_now


class IdempotencyKey(Base):
    """An idempotency key, stored as long as its audit."""

    __tablename__ = "idempotency_keys"

    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True
    )
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), index=True)
    body_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # SHA-256 of an upload's file
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


_ADD: Final = insert(cast("Table", Audit.__table__))


class Replay(NamedTuple):
    """The earlier audit of an idempotency key."""

    audit_id: str
    body_hash: bytes | None


class KeyTakenError(Exception):
    """Another audit of the account has the idempotency key."""

    def __init__(self, earlier: Replay) -> None:
        super().__init__(f"the key belongs to audit {earlier.audit_id}")
        self.earlier = earlier


def find_replay(session: Session, account_id: str, route: str, key: str) -> Replay | None:
    """Return the earlier audit of the account's key, if any."""
    owned = IdempotencyKey.account_id == account_id
    named = (IdempotencyKey.route == route, IdempotencyKey.key == key)
    query = select(IdempotencyKey.audit_id, IdempotencyKey.body_hash).where(owned, *named)
    row = session.execute(query).one_or_none()
    return None if row is None else Replay(*row)


def add_audit(
    session: Session,
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
    session.execute(_ADD, {name: value for name, value in vars(audit).items() if name[0] != "_"})
    if key is None:
        return
    row = {"account_id": audit.account_id, "route": route, "key": key, "audit_id": audit.id}
    claim = insert(IdempotencyKey).values({**row, "body_hash": body_hash})
    unless_taken = claim.on_conflict_do_nothing().returning(IdempotencyKey.audit_id)
    if session.scalar(unless_taken) is None:
        earlier = find_replay(session, audit.account_id, route, key)
        assert earlier is not None, "the key's owner has committed"  # noqa: S101 - an invariant
        raise KeyTakenError(earlier)
