"""What an account notes on a day of its charts, such as a deploy."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, Owned
from service.models.identity.accounts import Account

MAX_MARKS: Final = 500  # per account
TOO_MANY: Final = f"You can have up to {MAX_MARKS} marks. Remove one first."
_LATEST: Final = 20


class ChartMark(Owned, Base):
    """A deploy, or another change, on a day in UTC."""

    __tablename__ = "chart_marks"

    day: Mapped[date]
    words: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


def list_chart_marks(
    session: Session, account_id: str, days: tuple[date, date]
) -> Sequence[ChartMark]:
    """Return the marks of a range of days, oldest first."""
    own = (ChartMark.account_id == account_id, ChartMark.day.between(*days))
    query = select(ChartMark).where(*own).order_by(ChartMark.day, ChartMark.id)
    return session.scalars(query).all()


def list_latest_marks(connection: Connection, account_id: str) -> Sequence[Row[Any]]:
    """Return the marks of the latest days, newest first."""
    query = select(ChartMark).where(ChartMark.account_id == account_id)
    latest = query.order_by(ChartMark.day.desc(), ChartMark.id).limit(_LATEST)
    return connection.execute(latest).all()


def add_mark(session: Session, account_id: str, day: date, words: str) -> ChartMark | None:
    """Add a mark, or return the same one of that day; return None if there are too many."""
    # The lock makes the count and the insert one step.
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    own = ChartMark.account_id == account_id
    same = select(ChartMark).where(own, ChartMark.day == day, ChartMark.words == words)
    known = session.scalars(same.limit(1)).first()
    if known is not None:
        return known
    if (session.scalar(select(func.count()).select_from(ChartMark).where(own)) or 0) >= MAX_MARKS:
        return None
    mark = ChartMark(account_id=account_id, day=day, words=words)
    session.add(mark)
    session.flush()
    return mark


def remove_mark(session: Session, account_id: str, mark_id: str) -> bool:
    """Remove a mark; return whether the account had it."""
    own = (ChartMark.id == mark_id, ChartMark.account_id == account_id)
    return session.scalar(delete(ChartMark).where(*own).returning(ChartMark.id)) is not None
