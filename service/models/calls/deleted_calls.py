"""Calls that an account has deleted: what some imports have brought on some days.

A row stays after compaction has excluded the calls, because a later reading of its import would
bring them again. What arrives after the deletion is not part of it.
"""

from datetime import date, datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base


class DeletedCalls(Base):
    """The deletion of what one import has brought on some days."""

    __tablename__ = "deleted_calls"
    __table_args__ = (
        Index(
            "ix_deleted_calls_pending", "account_id", postgresql_where=text("applied_at IS NULL")
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    account_id: Mapped[str] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    audit_id: Mapped[str] = mapped_column(index=True)
    first_day: Mapped[date]
    last_day: Mapped[date]
    applied_at: Mapped[datetime | None]  # null while a file may still have the calls
