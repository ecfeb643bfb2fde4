"""Ingest keys and read tokens. Secrets are shown once; only their hashes are stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from sqlalchemy import bindparam, delete, func, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship
from sqlalchemy.types import BigInteger, LargeBinary, Text

from service.core import tokens
from service.models.base import Base, Executor, Owned, utc_now
from service.models.identity.accounts import FREE, KEY_LIMITS, Account, best_plan

TOKEN_DAYS: Final = 90  # until a read token expires, unless its owner chooses otherwise
MAX_READ_TOKENS: Final = 50  # per account: more than it needs, too few to fill our tables


class _Credential(Owned):
    """What keys and tokens have in common. Revoking deletes the row."""

    prefix: Mapped[str]  # the first characters, to distinguish them
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    label: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_used_at: Mapped[datetime | None]
    uses: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    expires_at: Mapped[datetime | None]


class IngestKey(_Credential, Base):
    """A write-only key."""

    __tablename__ = "ingest_keys"

    account: Mapped[Account] = relationship(lazy="joined")

    @classmethod
    def minted(cls, account_id: str, *, label: str = "") -> tuple[Self, str]:
        """Return a new row and its secret, which is stored only as a hash."""
        secret, secret_hash = tokens.mint_hashed(tokens.Kind.INGEST_KEY)
        prefix = tokens.shown_prefix(secret)
        row = cls(account_id=account_id, prefix=prefix, secret_hash=secret_hash, label=label)
        return row, secret


class ReadToken(_Credential, Base):
    """A read-only token with the scope `read:audits`, `read:findings` or both."""

    __tablename__ = "read_tokens"

    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))

    account: Mapped[Account] = relationship(lazy="joined")

    @classmethod
    def minted(
        cls,
        account_id: str,
        *,
        scopes: Sequence[str],
        label: str = "",
        expires_at: datetime | None = None,
    ) -> tuple[Self, str]:
        """Return a new row and its secret, which is stored only as a hash."""
        secret, secret_hash = tokens.mint_hashed(tokens.Kind.READ_TOKEN)
        row = cls(
            account_id=account_id,
            prefix=tokens.shown_prefix(secret),
            secret_hash=secret_hash,
            scopes=list(scopes),
            label=label,
            expires_at=expires_at,
        )
        return row, secret


class Credential(NamedTuple):
    """The fields of a request's key or token."""

    id: str
    account_id: str
    secret_hash: bytes
    last_used_at: datetime | None
    plan: str = FREE  # of a key's account
    scopes: tuple[str, ...] = ()
    name: str = ""  # a key's label, or its prefix


# Each request needs one of them, and making a statement takes longer than running it.
_KEY: Final = IngestKey.__table__.c
_FIND_KEY: Final = select(
    *(_KEY.id, _KEY.account_id, _KEY.secret_hash, _KEY.last_used_at),
    best_plan(_KEY.account_id),
    func.coalesce(func.nullif(_KEY.label, ""), _KEY.prefix),
).where(
    _KEY.secret_hash == bindparam("secret_hash"),
    or_(_KEY.expires_at.is_(None), _KEY.expires_at > bindparam("now")),
)
_TOKEN: Final = ReadToken.__table__.c
_FIND_TOKEN: Final = select(
    *(_TOKEN.id, _TOKEN.account_id, _TOKEN.secret_hash, _TOKEN.last_used_at, _TOKEN.scopes)
).where(
    _TOKEN.secret_hash == bindparam("secret_hash"),
    or_(_TOKEN.expires_at.is_(None), _TOKEN.expires_at > bindparam("now")),
)


def find_ingest_key(connection: Executor, secret_hash: bytes) -> Credential | None:
    """Return the key and its account's plan, in one query."""
    given = {"secret_hash": secret_hash, "now": utc_now()}
    row = connection.execute(_FIND_KEY, given).one_or_none()
    if row is None:
        return None
    key_id, account_id, stored_hash, last_used_at, plan, name = row
    return Credential(key_id, account_id, stored_hash, last_used_at, plan or FREE, name=name)


def find_read_token(session: Session, secret_hash: bytes) -> Credential | None:
    row = session.execute(_FIND_TOKEN, {"secret_hash": secret_hash, "now": utc_now()}).one_or_none()
    return None if row is None else Credential(*row[:4], scopes=tuple(row[4]))


class KeyLimitError(Exception):
    """The account's plan allows no more ingest keys."""

    def __init__(self, plan: str) -> None:
        self.plan = plan
        self.allowed = KEY_LIMITS[plan]
        super().__init__(
            f"all {self.allowed} ingest keys of the {plan} plan are in use"
            if self.allowed
            else f"the {plan} plan doesn't include ingest keys"
        )


def add_ingest_key(session: Session, owner: Account, label: str = "") -> tuple[IngestKey, str]:
    """Add an ingest key and return it with its secret; raise `KeyLimitError` at the limit."""
    # Without the lock, two requests could both create the last allowed key.
    session.execute(select(Account.id).where(Account.id == owner.id).with_for_update())
    session.expire(owner, ["subscriptions"])
    lasting = (IngestKey.account_id == owner.id, IngestKey.expires_at.is_(None))
    if (session.scalar(select(func.count()).where(*lasting)) or 0) >= KEY_LIMITS[owner.plan]:
        raise KeyLimitError(owner.plan)
    row, secret = IngestKey.minted(owner.id, label=label)
    session.add(row)
    return row, secret


class RotationError(Exception):
    """The key can't be rotated: it isn't the account's, or too many old keys still work."""


def rotate_ingest_key(
    session: Session, account_id: str, key_id: str, overlap: timedelta
) -> tuple[IngestKey, str]:
    """Add a new key and let the old key expire after `overlap`; raise `RotationError`.

    Expiring keys don't count toward the plan's limit, but there can't be more of them than it.
    """
    owner = session.scalars(select(Account).where(Account.id == account_id).with_for_update()).one()
    keys = list_ingest_keys(session, account_id)
    old_key = next((key for key in keys if key.id == key_id and key.expires_at is None), None)
    now = utc_now()
    expiring = sum(key.expires_at is not None and key.expires_at > now for key in keys)
    if old_key is None:
        raise RotationError("This key was already revoked or rotated.")
    if not KEY_LIMITS[owner.plan]:
        raise RotationError(f"The {owner.plan} plan doesn't include ingest keys.")
    if expiring >= KEY_LIMITS[owner.plan]:
        raise RotationError("Too many rotated keys still work. Revoke one of them first.")
    old_key.expires_at = now + overlap
    row, secret = IngestKey.minted(account_id, label=old_key.label)
    session.add(row)
    return row, secret


class TokenLimitError(Exception):
    """The account has the maximum number of read tokens."""


def add_read_token(
    session: Session,
    owner: Account,
    scopes: Sequence[str],
    label: str = "",
    *,
    expires_at: datetime | None = None,
) -> tuple[ReadToken, str]:
    """Add a read token and return it with its secret; raise `TokenLimitError` at the limit."""
    session.execute(select(Account.id).where(Account.id == owner.id).with_for_update())
    query = select(func.count()).where(ReadToken.account_id == owner.id)
    if (session.scalar(query) or 0) >= MAX_READ_TOKENS:
        raise TokenLimitError
    row, secret = ReadToken.minted(owner.id, scopes=scopes, label=label, expires_at=expires_at)
    session.add(row)
    return row, secret


def list_ingest_keys(session: Session, account_id: str) -> Sequence[IngestKey]:
    """Return the account's keys, newest first."""
    query = select(IngestKey).where(IngestKey.account_id == account_id)
    return session.scalars(query.order_by(IngestKey.created_at.desc(), IngestKey.id)).all()


def list_read_tokens(session: Session, account_id: str) -> Sequence[ReadToken]:
    """Return the account's tokens, newest first."""
    query = select(ReadToken).where(ReadToken.account_id == account_id)
    return session.scalars(query.order_by(ReadToken.created_at.desc(), ReadToken.id)).all()


def revoke(
    session: Session, table: type[IngestKey] | type[ReadToken], account_id: str, row_id: str
) -> str | None:
    """Delete one of the account's keys or tokens; return its prefix, or None if it isn't there."""
    mine = delete(table).where(table.account_id == account_id, table.id == row_id)
    return session.scalar(mine.returning(table.prefix))
