"""The outbox: every mail is a row first, and is rendered and sent by a job.

A row holds what the mail is about, never a secret: links are made when it is rendered.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from service.models.base import Base, new_id, utc_now

MAIL_STATUSES = ("queued", "sending", "sent", "failed")


class Mail(Base):
    __tablename__ = "mails"
    __table_args__ = (
        CheckConstraint(f"status IN {MAIL_STATUSES}", name="status"),
        Index(
            "ix_mails_unsent",
            "next_attempt_at",
            "id",
            postgresql_where=text("status IN ('queued', 'sending')"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    account_id: Mapped[str | None] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    kind: Mapped[str]
    recipient: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    dedupe_key: Mapped[str | None] = mapped_column(unique=True)  # at most one mail has it
    status: Mapped[str] = mapped_column(default="queued")
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]  # not worth sending any more
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[datetime] = mapped_column(default=utc_now)
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    error: Mapped[str | None]  # the kind of the last failure, never its text
