"""Magic links and the web sessions that they lead to: hashes only, as of every secret."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from sqlalchemy import ForeignKey, Index, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship
from sqlalchemy.types import LargeBinary

from service.core import tokens
from service.models.base import Base, new_id, utc_now
from service.models.identity.accounts import Account, has_active_subscription


class MagicLink(Base):
    """A single-use link to an address, whether or not that has an account yet."""

    __tablename__ = "magic_links"
    __table_args__ = (Index("ix_magic_links_email_created", "email", "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str]  # in lower case
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    next_path: Mapped[str | None]  # where to go on to; a path of this site
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)
    ended_at: Mapped[datetime | None]  # consumed, or ended by a later link's use


class WebSession(Base):
    """One signed-in browser. Signing out deletes the row."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    user_agent: Mapped[str] = mapped_column(default="")  # to tell browsers apart in the list
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    last_seen_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)

    account: Mapped[Account] = relationship(lazy="joined")

    @classmethod
    def minted(cls, account_id: str, *, days: int, user_agent: str = "") -> tuple[Self, str]:
        """A new row and the secret that it remembers only as a hash."""
        secret, secret_hash = tokens.mint_hashed(tokens.Kind.WEB_SESSION)
        row = cls(
            account_id=account_id,
            secret_hash=secret_hash,
            user_agent=user_agent,
            expires_at=utc_now() + timedelta(days=days),
        )
        return row, secret


class ConsumedLink(NamedTuple):
    """Whose address the link proved, and where its reader wants to go on to."""

    email: str
    next_path: str | None


def add_magic_link(
    session: Session, email: str, secret_key: str, *, minutes: int, next_path: str | None
) -> MagicLink:
    """A link to an address. Its secret can be derived from its id, and is not kept."""
    link_id, now = new_id(), utc_now()
    _secret, secret_hash = tokens.derive(tokens.Kind.MAGIC_LINK, secret_key, link_id)
    link = MagicLink(
        id=link_id,
        email=email,
        secret_hash=secret_hash,
        next_path=next_path,
        created_at=now,
        expires_at=now + timedelta(minutes=minutes),
    )
    session.add(link)
    return link


def consume_magic_link(session: Session, secret_hash: bytes) -> ConsumedLink | None:
    """Use the link up, and every earlier one of its address; None where it is none any more.

    Of any number who show one link, the UPDATE lets one through.
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
    _end_earlier_links(session, link.email, link.created_at, now)
    return ConsumedLink(link.email, link.next_path)


def _end_earlier_links(session: Session, email: str, before: datetime, now: datetime) -> None:
    # Rows are locked from the newest to the oldest, here as above, so that two who use two links
    # of an address at once do not wait for each other.
    earlier = (
        select(MagicLink.id)
        .where(MagicLink.email == email, MagicLink.ended_at.is_(None))
        .where(MagicLink.created_at <= before, MagicLink.expires_at > now)
        .order_by(MagicLink.created_at.desc(), MagicLink.id.desc())
        .with_for_update()
    )
    ids = session.scalars(earlier).all()
    session.execute(update(MagicLink).where(MagicLink.id.in_(ids)).values(ended_at=now))


def open_account(session: Session, email: str) -> Account:
    """The account of an address that was proved; a first sign-in makes it."""
    row = insert(Account).values(email=email).on_conflict_do_nothing(index_elements=["email"])
    session.execute(row)
    return session.scalars(select(Account).where(Account.email == email)).one()


class KnownSession(NamedTuple):
    """What a request needs to know of the session that it came with."""

    id: str
    account_id: str
    secret_hash: bytes
    last_seen_at: datetime
    email: str
    has_active_subscription: bool


def find_session(session: Session, secret_hash: bytes, idle_days: int) -> KnownSession | None:
    """The session, if it is neither over nor forgotten, and whose it is, in one query."""
    now = utc_now()
    columns = (
        WebSession.id,
        WebSession.account_id,
        WebSession.secret_hash,
        WebSession.last_seen_at,
        Account.email,
        has_active_subscription(WebSession.account_id),
    )
    live = (WebSession.expires_at > now, WebSession.last_seen_at > now - timedelta(days=idle_days))
    query = select(*columns).join(Account, Account.id == WebSession.account_id)
    row = session.execute(query.where(WebSession.secret_hash == secret_hash, *live)).one_or_none()
    return None if row is None else KnownSession(*row)


def note_seen(session: Session, session_id: str, now: datetime) -> None:
    """Note when a session was last used; harmless if it was revoked meanwhile."""
    session.execute(update(WebSession).where(WebSession.id == session_id).values(last_seen_at=now))


def list_sessions(session: Session, account_id: str, idle_days: int) -> Sequence[WebSession]:
    """The account's live sessions, the latest used first."""
    now = utc_now()
    live = (WebSession.expires_at > now, WebSession.last_seen_at > now - timedelta(days=idle_days))
    query = select(WebSession).where(WebSession.account_id == account_id, *live)
    return session.scalars(query.order_by(WebSession.last_seen_at.desc(), WebSession.id)).all()


def end_session(session: Session, account_id: str, session_id: str) -> bool:
    """Sign one browser of the account out; false where it has no such session."""
    mine = (WebSession.account_id == account_id, WebSession.id == session_id)
    ended = session.scalars(delete(WebSession).where(*mine).returning(WebSession.id)).all()
    return bool(ended)


def end_other_sessions(session: Session, account_id: str, kept_id: str) -> None:
    others = (WebSession.account_id == account_id, WebSession.id != kept_id)
    session.execute(delete(WebSession).where(*others))


def end_presented_session(session: Session, secret_hash: bytes) -> None:
    """Sign out the browser that shows this session's secret."""
    session.execute(delete(WebSession).where(WebSession.secret_hash == secret_hash))
