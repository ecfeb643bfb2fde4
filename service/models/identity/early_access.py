"""Early access signups."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, utc_now


class EarlyAccess(Base):
    __tablename__ = "early_access"

    email: Mapped[str] = mapped_column(primary_key=True)  # in lower case
    asked_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)


def add_early_access(session: Session, email: str) -> None:
    """Add a signup; keep an earlier signup of the same address."""
    session.execute(insert(EarlyAccess).values(email=email).on_conflict_do_nothing())


def list_early_access(session: Session) -> Sequence[EarlyAccess]:
    """Return all signups, oldest first."""
    query = select(EarlyAccess).order_by(EarlyAccess.asked_at, EarlyAccess.email)
    return session.scalars(query).all()
