"""The outbox: every mail is a row first; a job renders and sends it.

A row never contains a secret: links are created when the mail is rendered. Each attempt to send is
a claim with a lease and a token, like an audit's attempt; all times are the database's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NotRequired, Required, TypedDict, Unpack
from uuid import uuid4

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Row,
    Update,
    and_,
    case,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, new_id, utc_now

QUEUED, SENDING, SENT, FAILED = MAIL_STATUSES = ("queued", "sending", "sent", "failed")
EXPIRED: Final = "expired"
GIVEN_UP: Final = "given up"

_LONGEST_EFFORT: Final = timedelta(days=1)
_FIRST_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 900.0
_PAGE: Final = 1_000


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
    dedupe_key: Mapped[str | None] = mapped_column(
        unique=True
    )  # unique: prevents sending a mail twice
    status: Mapped[str] = mapped_column(default=QUEUED)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]  # not sent after this time
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[datetime] = mapped_column(default=func.now())
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    error: Mapped[str | None]  # the type of the last failure, never its text


_UNSENT: Final = Mail.status.in_((QUEUED, SENDING))
_DROPPED: Final = and_(Mail.status == SENDING, Mail.lease_expires_at < func.now())
_IS_EXPIRED: Final = and_(Mail.expires_at.is_not(None), Mail.expires_at <= func.now())
_IS_OVERDUE: Final = or_(_IS_EXPIRED, Mail.created_at <= func.now() - _LONGEST_EFFORT)


class NewMail(TypedDict):
    """The fields of a new mail. Two mails with the same dedupe key are the same mail."""

    kind: Required[str]
    recipient: Required[str]
    parameters: Required[dict[str, Any]]
    account_id: NotRequired[str | None]
    dedupe_key: NotRequired[str | None]
    expires_at: NotRequired[datetime | None]


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """The right to send one mail, proved by its `token`; `attempt` counts from 1."""

    mail_id: str
    token: str
    attempt: int
    kind: str
    recipient: str = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)
    created_at: datetime


def post_mail(session: Session | Connection, **mail: Unpack[NewMail]) -> str | None:
    """Add a mail to the outbox; return its ID, to enqueue after the commit.

    Return None if a mail with this dedupe key was already posted.
    """
    statement = insert(Mail).values(**mail).on_conflict_do_nothing(index_elements=["dedupe_key"])
    return session.scalar(statement.returning(Mail.id))


def claim_mail(connection: Connection, mail_id: str, lease_seconds: float) -> Dispatch | None:
    """Claim the mail if it is due or its lease has expired."""
    token = uuid4().hex
    is_due = and_(Mail.status == QUEUED, Mail.next_attempt_at <= func.now())
    statement = (
        update(Mail)
        .where(Mail.id == mail_id, or_(is_due, _DROPPED), ~_IS_OVERDUE)
        .values(
            status=SENDING,
            attempts=Mail.attempts + 1,
            lease_token=token,
            lease_expires_at=_in(lease_seconds),
        )
        .returning(Mail.attempts, Mail.kind, Mail.recipient, Mail.parameters, Mail.created_at)
    )
    row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    attempt, *rest = row
    names = ("kind", "recipient", "parameters", "created_at")
    values: dict[str, Any] = dict(zip(names, rest, strict=True))
    return Dispatch(mail_id=mail_id, token=token, attempt=attempt, **values)


def finish_mail(connection: Connection, dispatch: Dispatch) -> bool:
    """Mark the mail as sent, even if another worker has claimed it since.

    Return False if it was deleted with its account.
    """
    sent = {"status": SENT, "sent_at": func.now(), "error": None, **_NO_LEASE}
    named = update(Mail).where(Mail.id == dispatch.mail_id)
    return connection.execute(named.values(sent)).rowcount > 0


def postpone_mail(connection: Connection, dispatch: Dispatch, error: str) -> None:
    """Schedule another attempt, after a pause that doubles with each attempt."""
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** (dispatch.attempt - 1), _LONGEST_PAUSE_SECONDS)
    again = {"status": QUEUED, "next_attempt_at": _in(pause), "error": error, **_NO_LEASE}
    connection.execute(_held(dispatch).values(again))


def fail_mail(connection: Connection, dispatch: Dispatch, error: str) -> None:
    connection.execute(_held(dispatch).values(status=FAILED, error=error, **_NO_LEASE))


def fail_overdue_mails(connection: Connection) -> Sequence[str]:
    """Fail expired and repeatedly failed mails that no worker is sending; return their IDs."""
    reason = case((_IS_EXPIRED, EXPIRED), else_=GIVEN_UP)
    statement = (
        update(Mail)
        .where(_UNSENT, or_(Mail.status == QUEUED, _DROPPED), _IS_OVERDUE)
        .values(status=FAILED, error=reason, **_NO_LEASE)
        .returning(Mail.id)
    )
    return connection.scalars(statement).all()


def list_due_mails(connection: Connection, older_than_seconds: float) -> Sequence[Row[str, int]]:
    """Return the IDs and attempts of overdue mails, longest overdue first."""
    is_due = and_(Mail.status == QUEUED, Mail.next_attempt_at < _in(-older_than_seconds))
    statement = select(Mail.id, Mail.attempts).where(_UNSENT, or_(is_due, _DROPPED))
    return connection.execute(statement.order_by(Mail.next_attempt_at, Mail.id).limit(_PAGE)).all()


_NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}


def _held(dispatch: Dispatch) -> Update:
    """Return an UPDATE that matches only while the token holds the mail (the fence)."""
    mine = (Mail.id == dispatch.mail_id, Mail.lease_token == dispatch.token)
    return update(Mail).where(_UNSENT, *mine)


def _in(seconds: float) -> ColumnElement[datetime]:
    return func.now() + timedelta(seconds=seconds)
