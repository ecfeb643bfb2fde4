"""Magic links and web sessions. Only hashes of secrets are stored."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, Self

from sqlalchemy import Index, Select, bindparam, delete, false, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship
from sqlalchemy.types import LargeBinary

from service.core import tokens
from service.core.sealing import SealedText
from service.models.base import Base, Executor, Lock, Owned, new_id, take_lock, utc_now
from service.models.billing.payments import Credit
from service.models.identity.accounts import Account, best_plan, has_active_subscription


class MagicLink(Base):
    """A single-use sign-in link for an address, with or without an account."""

    __tablename__ = "magic_links"
    __table_args__ = (Index("ix_magic_links_email_created", "email", "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str]  # in lower case
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    next_path: Mapped[str | None]  # where to continue after sign-in; a path on this site
    browser_hash: Mapped[bytes | None] = mapped_column(LargeBinary)  # of the browser that asked
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)
    ended_at: Mapped[datetime | None]  # used, or invalidated by the use of a newer link

    @property
    def is_usable(self) -> bool:
        return self.ended_at is None and self.expires_at > utc_now()


class WebSession(Owned, Base):
    """A signed-in browser. Signing out deletes the row."""

    __tablename__ = "sessions"

    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    # To distinguish browsers in the list; it says something about a person, and is never searched.
    user_agent: Mapped[str] = mapped_column(SealedText("sessions.user_agent"), default="")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_seen_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)
    used_passkey: Mapped[bool] = mapped_column(default=False, server_default=false())

    account: Mapped[Account] = relationship(lazy="joined")

    @classmethod
    def minted(cls, account_id: str, *, days: int, user_agent: str = "") -> tuple[Self, str]:
        """Return a new row and its secret, which is stored only as a hash."""
        secret, secret_hash = tokens.mint_hashed(tokens.Kind.WEB_SESSION)
        row = cls(
            account_id=account_id,
            secret_hash=secret_hash,
            user_agent=user_agent,
            expires_at=utc_now() + timedelta(days=days),
        )
        return row, secret


class ConsumedLink(NamedTuple):
    """The verified address of a used link, and where to continue."""

    email: str
    next_path: str | None


def add_magic_link(
    session: Session,
    email: str,
    secret_key: str,
    *,
    minutes: int,
    next_path: str | None,
    browser_hash: bytes | None = None,
) -> MagicLink:
    """Add a link for an address. Its secret is derived from its ID and not stored."""
    link_id, now = new_id(), utc_now()
    _secret, secret_hash = tokens.derive(tokens.Kind.MAGIC_LINK, secret_key, link_id)
    link = MagicLink(
        id=link_id,
        email=email,
        secret_hash=secret_hash,
        next_path=next_path,
        browser_hash=browser_hash,
        created_at=now,
        expires_at=now + timedelta(minutes=minutes),
    )
    session.add(link)
    return link


def count_open_links(session: Session, email: str) -> int:
    """Return how many links of this address could still be used, after those being added now."""
    take_lock(session, Lock.SIGN_IN_LINKS, email)
    is_open = (MagicLink.ended_at.is_(None), MagicLink.expires_at > utc_now())
    query = select(func.count()).where(MagicLink.email == email, *is_open)
    return session.scalar(query) or 0


def find_magic_link(session: Session, secret_hash: bytes) -> MagicLink | None:
    """Return the link whether or not it can still be used; looking changes nothing."""
    named = MagicLink.secret_hash == secret_hash
    return session.scalars(select(MagicLink).where(named)).one_or_none()


def consume_magic_link(session: Session, secret_hash: bytes) -> ConsumedLink | None:
    """Use the link and invalidate all earlier links of its address; return None if it is invalid.

    If a link is used several times at once, the UPDATE succeeds only once.
    """
    now = utc_now()
    usable = (MagicLink.ended_at.is_(None), MagicLink.expires_at > now)
    link = session.execute(
        update(MagicLink)
        .where(MagicLink.secret_hash == secret_hash, *usable)
        .values(ended_at=now)
        .returning(MagicLink.email, MagicLink.next_path, MagicLink.created_at)
    ).one_or_none()
    if link is None:
        return None
    # Rows are locked from newest to oldest, here and above, so that using two links of an address
    # at the same time can't deadlock.
    earlier = (
        select(MagicLink.id)
        .where(MagicLink.email == link.email, MagicLink.ended_at.is_(None))
        .where(MagicLink.created_at <= link.created_at, MagicLink.expires_at > now)
        .order_by(MagicLink.created_at.desc(), MagicLink.id.desc())
        .with_for_update()
    )
    ids = session.scalars(earlier).all()
    session.execute(update(MagicLink).where(MagicLink.id.in_(ids)).values(ended_at=now))
    return ConsumedLink(link.email, link.next_path)


def open_account(session: Session, email: str) -> Account:
    """Return the account of a verified address; create it on the first sign-in."""
    row = insert(Account).values(email=email).on_conflict_do_nothing(index_elements=["email"])
    session.execute(row)
    return session.scalars(select(Account).where(Account.email == email)).one()


class KnownSession(NamedTuple):
    """The fields of a request's session."""

    id: str
    account_id: str
    secret_hash: bytes
    last_seen_at: datetime
    signed_in_at: datetime
    email: str
    has_active_subscription: bool
    plan: str | None  # None without a subscription
    credits: int  # those that no audit uses
    time_zone: str | None


def find_session(session: Executor, secret_hash: bytes, idle_days: int) -> KnownSession | None:
    """Return the session with its account, unless it has expired or was idle too long."""
    now = utc_now()
    given = {"secret": secret_hash, "now": now, "seen": now - timedelta(days=idle_days)}
    row = session.execute(_session_query(), given).one_or_none()
    return None if row is None else KnownSession(*row)


# Every page asks for it, and writing it takes longer than running it.
@cache
def _session_query() -> Select[Any]:
    is_free = (Credit.audit_id.is_(None), Credit.revoked_at.is_(None))
    mine = Credit.account_id == WebSession.account_id
    credits = select(func.count()).where(mine, *is_free).correlate(WebSession).scalar_subquery()
    columns: tuple[Any, ...] = (
        *(WebSession.id, WebSession.account_id, WebSession.secret_hash, WebSession.last_seen_at),
        *(WebSession.created_at, Account.email, has_active_subscription(WebSession.account_id)),
        *(best_plan(WebSession.__table__.c.account_id), credits, Account.time_zone),
    )
    return (
        select(*columns)
        .join(Account, Account.id == WebSession.account_id)
        .where(
            WebSession.secret_hash == bindparam("secret"),
            WebSession.expires_at > bindparam("now"),
            WebSession.last_seen_at > bindparam("seen"),
        )
    )


def update_last_seen(session: Executor, session_id: str, now: datetime) -> None:
    """Update when a session was last used; do nothing if it was revoked in the meantime."""
    session.execute(update(WebSession).where(WebSession.id == session_id).values(last_seen_at=now))


def list_sessions(session: Session, account_id: str, idle_days: int) -> Sequence[WebSession]:
    """Return the account's active sessions, most recently used first."""
    now = utc_now()
    live = (WebSession.expires_at > now, WebSession.last_seen_at > now - timedelta(days=idle_days))
    query = select(WebSession).where(WebSession.account_id == account_id, *live)
    return session.scalars(query.order_by(WebSession.last_seen_at.desc(), WebSession.id)).all()


def end_session(session: Session, account_id: str, session_id: str) -> bool:
    """Sign out one session of the account; return False if it has no such session."""
    mine = (WebSession.account_id == account_id, WebSession.id == session_id)
    ended = session.scalars(delete(WebSession).where(*mine).returning(WebSession.id)).all()
    return bool(ended)


def end_other_sessions(session: Session, account_id: str, kept_id: str) -> None:
    others = (WebSession.account_id == account_id, WebSession.id != kept_id)
    session.execute(delete(WebSession).where(*others))


def end_all_sessions(session: Session, account_id: str) -> int:
    """Sign out the account everywhere; return the number of its sessions."""
    mine = delete(WebSession).where(WebSession.account_id == account_id)
    return len(session.scalars(mine.returning(WebSession.id)).all())


def did_use_passkey(session: Session, session_id: str) -> bool:
    """Check whether the session was started with a passkey."""
    used = select(WebSession.used_passkey).where(WebSession.id == session_id)
    return bool(session.scalar(used))


def end_presented_session(session: Session, secret_hash: bytes) -> None:
    """Sign out the session with this secret."""
    session.execute(delete(WebSession).where(WebSession.secret_hash == secret_hash))
