"""Passkeys and recovery codes of accounts, and sign-ins that wait for one of them.

Secrets and codes are stored as hashes only.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import BigInteger, delete, exists, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import LargeBinary

from service.core import tokens
from service.core.recovery_codes import mint_code
from service.models.base import Base, Owned, utc_now
from service.models.identity.accounts import Account

MAX_PASSKEYS: Final = 20  # per account
RECOVERY_CODES: Final = 10
# A sign-in that waits for a passkey ends after this time, and after this many wrong answers.
PENDING_MINUTES: Final = 10
MAX_WRONG_ANSWERS: Final = 5


class Passkey(Owned, Base):
    """A passkey or security key. Removing it deletes the row."""

    __tablename__ = "passkeys"

    credential_id: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    public_key: Mapped[bytes] = mapped_column(LargeBinary)
    sign_count: Mapped[int] = mapped_column(BigInteger)  # 0 if the authenticator doesn't count
    name: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_used_at: Mapped[datetime | None]


class RecoveryCode(Owned, Base):
    """A code that replaces a passkey once. Using it deletes the row."""

    __tablename__ = "recovery_codes"

    code_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class PendingSignIn(Owned, Base):
    """A used sign-in link whose account asks for a passkey as well. Its end deletes the row."""

    __tablename__ = "pending_sign_ins"

    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)  # of the cookie's secret
    challenge: Mapped[bytes] = mapped_column(LargeBinary)
    next_path: Mapped[str]
    wrong_answers: Mapped[int] = mapped_column(default=0, server_default="0")
    expires_at: Mapped[datetime] = mapped_column(index=True)


def list_passkeys(session: Session, account_id: str) -> Sequence[Passkey]:
    query = select(Passkey).where(Passkey.account_id == account_id)
    return session.scalars(query.order_by(Passkey.created_at, Passkey.id)).all()


def has_passkey(session: Session, account_id: str) -> bool:
    return bool(session.scalar(select(exists().where(Passkey.account_id == account_id))))


def find_passkey(session: Session, account_id: str, credential_id: bytes) -> Passkey | None:
    """Return the account's passkey with its row locked, so that its counter can't be raced."""
    mine = (Passkey.account_id == account_id, Passkey.credential_id == credential_id)
    return session.scalars(select(Passkey).where(*mine).with_for_update()).one_or_none()


def is_registered(session: Session, credential_id: bytes) -> bool:
    """Check whether any account has this passkey."""
    return bool(session.scalar(select(exists().where(Passkey.credential_id == credential_id))))


def lock_passkeys(session: Session, account_id: str) -> Sequence[Passkey]:
    """Return the account's passkeys; nobody else adds or removes one in the meantime."""
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    return list_passkeys(session, account_id)


def remove_passkey(session: Session, account_id: str, passkey_id: str) -> Passkey | None:
    """Remove a passkey and return it; without passkeys, recovery codes have no use and go too."""
    known = {passkey.id: passkey for passkey in lock_passkeys(session, account_id)}
    passkey = known.pop(passkey_id, None)
    if passkey is not None:
        session.delete(passkey)
    if not known:
        remove_second_factor(session, account_id)
    return passkey


def remove_second_factor(session: Session, account_id: str) -> int:
    """Remove passkeys, recovery codes and waiting sign-ins; return the number of passkeys."""
    for table in (RecoveryCode, PendingSignIn):
        session.execute(delete(table).where(table.account_id == account_id))
    gone = delete(Passkey).where(Passkey.account_id == account_id).returning(Passkey.id)
    return len(session.scalars(gone).all())


def replace_recovery_codes(session: Session, account_id: str) -> list[str]:
    """Return new codes, to be shown once; earlier codes stop working."""
    session.execute(delete(RecoveryCode).where(RecoveryCode.account_id == account_id))
    minted = [mint_code() for _ in range(RECOVERY_CODES)]
    session.add_all(
        RecoveryCode(account_id=account_id, code_hash=code_hash) for _, code_hash in minted
    )
    return [code for code, _ in minted]


def count_recovery_codes(session: Session, account_id: str) -> int:
    return session.scalar(select(func.count()).where(RecoveryCode.account_id == account_id)) or 0


def use_recovery_code(session: Session, account_id: str, code_hash: bytes) -> bool:
    """Use the code up; of several uses at once, one succeeds."""
    mine = (RecoveryCode.account_id == account_id, RecoveryCode.code_hash == code_hash)
    used = session.scalars(delete(RecoveryCode).where(*mine).returning(RecoveryCode.id)).all()
    return bool(used)


def add_pending_sign_in(
    session: Session, account_id: str, *, challenge: bytes, next_path: str
) -> str:
    """Add a sign-in that waits for a passkey; return the secret of its cookie."""
    secret, secret_hash = tokens.mint_hashed(tokens.Kind.PENDING_SIGN_IN)
    pending = PendingSignIn(
        account_id=account_id, secret_hash=secret_hash, challenge=challenge, next_path=next_path
    )
    pending.expires_at = utc_now() + timedelta(minutes=PENDING_MINUTES)
    session.add(pending)
    return secret


def find_pending_sign_in(session: Session, secret_hash: bytes) -> PendingSignIn | None:
    """Return the sign-in with its row locked, so that two answers can't both complete it."""
    live = (PendingSignIn.secret_hash == secret_hash, PendingSignIn.expires_at > utc_now())
    return session.scalars(select(PendingSignIn).where(*live).with_for_update()).one_or_none()


def end_pending_sign_ins(session: Session, account_id: str) -> None:
    session.execute(delete(PendingSignIn).where(PendingSignIn.account_id == account_id))
