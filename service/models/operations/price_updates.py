"""The latest update of the price book, which every worker and web process reads."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import LargeBinary

from service.models.base import Base, Executor

_KEPT_DAYS: Final = 30


class PriceUpdate(Base):
    """The update for one version of genai-prices: two of them are in use during a deploy."""

    __tablename__ = "price_updates"

    version: Mapped[str] = mapped_column(primary_key=True)
    fetched_at: Mapped[datetime]
    content: Mapped[bytes] = mapped_column(LargeBinary)


def find_fetched_at(connection: Executor, version: str) -> datetime | None:
    """Return when the update of this version was fetched; None if there is none."""
    query = select(PriceUpdate.fetched_at).where(PriceUpdate.version == version)
    return connection.scalar(query)


def find_update(connection: Executor, version: str) -> tuple[datetime, bytes] | None:
    """Return when the update of this version was fetched, and its content."""
    columns = (PriceUpdate.fetched_at, PriceUpdate.content)
    row = connection.execute(select(*columns).where(PriceUpdate.version == version)).one_or_none()
    return None if row is None else (row.fetched_at, row.content)


def save_update(connection: Connection, version: str, content: bytes) -> None:
    """Replace the update of this version, and delete those of versions no longer in use."""
    new = {"fetched_at": func.now(), "content": content}
    statement = insert(PriceUpdate).values(version=version, **new)
    connection.execute(statement.on_conflict_do_update(index_elements=["version"], set_=new))
    # Sweepers of a version in use replace its update daily.
    unused = PriceUpdate.fetched_at < func.now() - timedelta(days=_KEPT_DAYS)
    connection.execute(delete(PriceUpdate).where(unused))
