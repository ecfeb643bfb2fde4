"""The table of mails, and how a mail is posted."""

from datetime import datetime
from typing import Any, NotRequired, Required, TypedDict, Unpack

from sqlalchemy import ColumnElement, Connection, ForeignKey, and_, func
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column, synonym

from service.models.sending import Outgoing, table_args


class Mail(Outgoing):
    NAME, ID_NAME, SENT = "mail", "mail_id", "sent"
    FAILED_ACTION, WOKEN_ACTION = "mail_failed", "mail_woken"
    PAUSE_FACTOR, LONGEST_PAUSE_SECONDS = 2, 900.0

    __tablename__ = "mails"
    __table_args__ = table_args(__tablename__, SENT)

    account_id: Mapped[str | None] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), index=True
    )
    recipient: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    dedupe_key: Mapped[str | None] = mapped_column(
        unique=True
    )  # unique: prevents sending a mail twice
    expires_at: Mapped[datetime | None]  # not sent after this time
    queued_at: Mapped[datetime] = synonym("created_at")

    @classmethod
    def is_expired(cls) -> ColumnElement[bool]:
        return and_(cls.expires_at.is_not(None), cls.expires_at <= func.now())


class NewMail(TypedDict):
    """The fields of a new mail. Two mails with the same dedupe key are the same mail."""

    kind: Required[str]
    recipient: Required[str]
    parameters: Required[dict[str, Any]]
    account_id: NotRequired[str | None]
    dedupe_key: NotRequired[str | None]
    expires_at: NotRequired[datetime | None]


def post_mail(session: Session | Connection, **mail: Unpack[NewMail]) -> str | None:
    """Add a mail to the outbox; return its ID, to enqueue after the commit.

    Return None if a mail with this dedupe key was already posted.
    """
    statement = insert(Mail).values(**mail).on_conflict_do_nothing(index_elements=["dedupe_key"])
    return session.scalar(statement.returning(Mail.id))
