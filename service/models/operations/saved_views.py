"""Views that an account has saved: a page with its filters, range and order, under a name."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, Executor, Owned
from service.models.identity.accounts import Account

MAX_VIEWS: Final = 50  # per account
MAX_NAME: Final = 60


class SavedView(Owned, Base):
    """The query string of a page."""

    __tablename__ = "saved_views"

    page: Mapped[str]
    name: Mapped[str]
    query: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


def list_views(session: Executor, account_id: str, page: str = "") -> Sequence[Any]:
    """Return the views of a page, or of all pages, by name."""
    query = select(SavedView).where(SavedView.account_id == account_id)
    if page:
        query = query.where(SavedView.page == page)
    ordered = query.order_by(SavedView.name, SavedView.id)
    if isinstance(session, Session):
        return session.scalars(ordered).all()
    return session.execute(ordered).all()


def save_view(session: Session, account_id: str, page: str, name: str, query: str) -> bool:
    """Add a view, or replace the page's view of this name; return False if there are too many."""
    # The lock makes the look and the insert one step.
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    views = list_views(session, account_id)
    known = next((each for each in views if (each.page, each.name) == (page, name)), None)
    if known is not None:
        known.query = query
    elif len(views) >= MAX_VIEWS:
        return False
    else:
        session.add(SavedView(account_id=account_id, page=page, name=name, query=query))
    return True


def remove_view(session: Session, account_id: str, view_id: str) -> bool:
    """Remove a view; return False if the account has no such view."""
    own = (SavedView.id == view_id, SavedView.account_id == account_id)
    return session.scalar(delete(SavedView).where(*own).returning(SavedView.id)) is not None
