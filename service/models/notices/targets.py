"""Targets of notices: webhooks and Slack channels. Their URLs are secrets, so they are sealed."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import Text

from service.core.sealing import SealedText
from service.models.base import Base, Owned, utc_now
from service.models.identity.accounts import Account
from service.models.mail.outbox import post_mail

WEBHOOK, SLACK = KINDS = ("webhook", "slack")
# Why a target was disabled.
GONE, FAILING = REASONS = ("gone", "failing")
TARGET_DISABLED: Final = "target_disabled"  # the kind of mail
MAX_TARGETS: Final = 5  # per account, so that targets that hang can't keep the worker busy

_SECRET_BYTES: Final = 32
_FIRST_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 900.0


class NoticeTarget(Owned, Base):
    """After a failed attempt, no delivery to the target is tried until `resume_at`."""

    __tablename__ = "notice_targets"
    __table_args__ = (
        CheckConstraint(f"kind IN {KINDS}", name="kind"),
        CheckConstraint(f"disabled_reason IN {REASONS}", name="disabled_reason"),
    )

    kind: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    url: Mapped[str] = mapped_column(SealedText("notice_targets.url"))
    secret: Mapped[str] = mapped_column(SealedText("notice_targets.secret"), default="")
    events: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    failures: Mapped[int] = mapped_column(default=0)  # in a row
    resume_at: Mapped[datetime] = mapped_column(default=func.now())

    @property
    def host(self) -> str:
        """Return the only part of the URL that may be shown or mailed."""
        return urlsplit(self.url).hostname or ""


class TargetLimitError(Exception):
    """The account has as many targets as it may have."""


class NewTarget(NamedTuple):
    """What a person chooses of a target."""

    kind: str
    url: str
    events: Sequence[str]
    label: str = ""


def add_target(session: Session, account_id: str, new: NewTarget) -> NoticeTarget:
    """Add a target; a webhook gets a signing secret."""
    # The lock makes the count and the insert one step.
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    owned = select(func.count()).select_from(NoticeTarget).where(_owned_by(account_id))
    if (session.scalar(owned) or 0) >= MAX_TARGETS:
        raise TargetLimitError
    target = NoticeTarget(account_id=account_id, **new._asdict())
    target.secret = new_signing_secret() if new.kind == WEBHOOK else ""
    session.add(target)
    session.flush()
    return target


def new_signing_secret() -> str:
    """Return a secret in the form that Standard Webhooks prescribes."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


def list_targets(session: Session, account_id: str) -> Sequence[NoticeTarget]:
    query = select(NoticeTarget).where(_owned_by(account_id))
    return session.scalars(query.order_by(NoticeTarget.created_at, NoticeTarget.id)).all()


def find_target(session: Session, account_id: str, target_id: str) -> NoticeTarget | None:
    return session.scalars(select(NoticeTarget).where(_is(account_id, target_id))).one_or_none()


def remove_target(session: Session, account_id: str, target_id: str) -> bool:
    """Remove a target with its deliveries; return False if the account has no such target."""
    removed = delete(NoticeTarget).where(_is(account_id, target_id)).returning(NoticeTarget.id)
    return session.scalar(removed) is not None


def enable_target(session: Session, account_id: str, target_id: str) -> bool:
    """Enable a target again; return False if the account has no such target."""
    again = {"disabled_at": None, "disabled_reason": None, **_READY}
    changed = update(NoticeTarget).where(_is(account_id, target_id)).values(again)
    return session.scalar(changed.returning(NoticeTarget.id)) is not None


def disable_target(
    connection: Connection, target_id: str, reason: str, *conditions: ColumnElement[bool]
) -> str | None:
    """Disable an enabled target, if the conditions hold, and post the mail about it.

    Return the ID of the mail.
    """
    changed = update(NoticeTarget).where(
        NoticeTarget.id == target_id, NoticeTarget.disabled_at.is_(None), *conditions
    )
    disabled = changed.values(disabled_at=func.now(), disabled_reason=reason)
    columns = (NoticeTarget.account_id, NoticeTarget.kind, NoticeTarget.label, NoticeTarget.url)
    row = connection.execute(disabled.returning(*columns)).one_or_none()
    if row is None:
        return None
    return post_mail(
        connection,
        kind=TARGET_DISABLED,
        recipient=connection.execute(
            select(Account.email).where(Account.id == row.account_id)
        ).scalar_one(),
        account_id=row.account_id,
        parameters={
            "kind": row.kind,
            "label": row.label,
            "host": urlsplit(row.url).hostname or "",
            "reason": reason,
        },
    )


def pause_target(connection: Connection, target_id: str) -> None:
    """Wait longer after each failure in a row, so that a target that hangs costs little."""
    pause = func.least(
        _FIRST_PAUSE_SECONDS * func.power(2, func.least(NoticeTarget.failures, 30)),
        _LONGEST_PAUSE_SECONDS,
    )
    resume_at = func.now() + pause * timedelta(seconds=1)
    changed = update(NoticeTarget).where(NoticeTarget.id == target_id)
    connection.execute(changed.values(failures=NoticeTarget.failures + 1, resume_at=resume_at))


def resume_target(connection: Connection | Session, target_id: str) -> None:
    connection.execute(update(NoticeTarget).where(NoticeTarget.id == target_id).values(_READY))


_READY: Final[dict[str, Any]] = {"failures": 0, "resume_at": func.now()}


def _owned_by(account_id: str) -> ColumnElement[bool]:
    return NoticeTarget.account_id == account_id


def _is(account_id: str, target_id: str) -> ColumnElement[bool]:
    return and_(_owned_by(account_id), NoticeTarget.id == target_id)
