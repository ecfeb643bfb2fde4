"""Magic links and the web sessions that they lead to: hashes only, as of every secret."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column, relationship
from sqlalchemy.types import LargeBinary

from service.models.accounts import Account
from service.models.base import Base, new_id, utc_now


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
