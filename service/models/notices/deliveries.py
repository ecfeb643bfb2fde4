"""Deliveries: one row per event and target, posted in the transaction of the event.

`attempts.py` has what the worker and the sweeper do with them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKey,
    Index,
    Row,
    UniqueConstraint,
    and_,
    exists,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, new_id, utc_now
from service.models.notices.events import EVENTS, TEST, event_id_of, new_event_id
from service.models.notices.targets import NoticeTarget, resume_target

QUEUED, SENDING, DELIVERED, FAILED = DELIVERY_STATUSES = (
    "queued",
    "sending",
    "delivered",
    "failed",
)
SHOWN_DELIVERIES: Final = 50


class NoticeDelivery(Base):
    __tablename__ = "notice_deliveries"
    __table_args__ = (
        CheckConstraint(f"status IN {DELIVERY_STATUSES}", name="status"),
        UniqueConstraint("target_id", "event_id"),
        Index("ix_notice_deliveries_target", "target_id", "created_at"),
        Index(
            "ix_notice_deliveries_unsent",
            "next_attempt_at",
            "id",
            postgresql_where=text("status IN ('queued', 'sending')"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True, default=new_id)
    target_id: Mapped[str] = mapped_column(ForeignKey("notice_targets.id", ondelete="CASCADE"))
    event_id: Mapped[str]  # the same over all attempts, so that receivers can drop repeats
    event_type: Mapped[str]
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    status: Mapped[str] = mapped_column(default=QUEUED)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    queued_at: Mapped[datetime] = mapped_column(default=func.now())  # or sent again by a person
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[datetime] = mapped_column(default=func.now())
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    status_code: Mapped[int | None]  # of the last response
    error: Mapped[str | None]  # the type of the last failure, never its text
    delivered_at: Mapped[datetime | None]


IS_UNSENT: Final = NoticeDelivery.status.in_((QUEUED, SENDING))


def post_notice(
    session: Session | Connection,
    account_id: str,
    event_type: str,
    payload: Mapping[str, Any],
    *,
    dedupe_key: str | None = None,
) -> Sequence[str]:
    """Post an event to every target of the account that wants it, in the caller's transaction.

    Return the IDs of the deliveries, to enqueue after the commit; the sweeper also finds them. An
    event with the dedupe key of another of its type is that event, and is posted once.

    `payload` becomes the `data` of the message. Its `summary` is a sentence for people; its `path`
    is a page of ours, which becomes the full `url` when the message is sent.
    """
    if event_type not in EVENTS:
        raise ValueError(event_type)
    wanted = and_(NoticeTarget.disabled_at.is_(None), NoticeTarget.events.any_() == event_type)
    query = select(NoticeTarget.id).where(NoticeTarget.account_id == account_id, wanted)
    known = event_id_of(account_id, event_type, dedupe_key) if dedupe_key else None
    return _post(session, session.scalars(query).all(), event_type, payload, known)


def post_test(session: Session, target: NoticeTarget, payload: Mapping[str, Any]) -> Sequence[str]:
    """Post a test to one target, unless one is still waiting there."""
    session.execute(select(NoticeTarget.id).where(NoticeTarget.id == target.id).with_for_update())
    theirs = (NoticeDelivery.target_id == target.id, NoticeDelivery.event_type == TEST)
    if session.scalar(select(exists().where(*theirs, IS_UNSENT))):
        return []
    resume_target(session, target.id)
    return _post(session, [target.id], TEST, payload, None)


def _post(
    session: Session | Connection,
    target_ids: Sequence[str],
    event_type: str,
    payload: Mapping[str, Any],
    event_id: str | None,
) -> Sequence[str]:
    if not target_ids:
        return []
    event = {
        "event_id": event_id or new_event_id(),
        "event_type": event_type,
        "payload": dict(payload),
    }
    rows = [{"id": new_id(), "target_id": target_id, **event} for target_id in target_ids]
    once = insert(NoticeDelivery).values(rows).on_conflict_do_nothing()
    return session.scalars(once.returning(NoticeDelivery.id)).all()


def list_deliveries(
    session: Session, account_id: str
) -> Sequence[Row[NoticeDelivery, NoticeTarget]]:
    """Return the account's latest deliveries, newest first, each with its target."""
    query = select(NoticeDelivery, NoticeTarget).join(
        NoticeTarget, NoticeTarget.id == NoticeDelivery.target_id
    )
    order = (NoticeDelivery.created_at.desc(), NoticeDelivery.id)
    owned = query.where(NoticeTarget.account_id == account_id).order_by(*order)
    return session.execute(owned.limit(SHOWN_DELIVERIES)).all()


def resend_delivery(session: Session, account_id: str, delivery_id: str) -> bool:
    """Queue a delivery again, for another day and under the same event ID.

    Return False if the account has no such delivery, it is being sent, or its target is disabled.
    """
    enabled = select(NoticeTarget.id).where(
        NoticeTarget.account_id == account_id, NoticeTarget.disabled_at.is_(None)
    )
    again = {
        "status": QUEUED,
        "attempts": 0,
        "queued_at": func.now(),
        "next_attempt_at": func.now(),
        "status_code": None,
        "error": None,
    }
    mine = (NoticeDelivery.id == delivery_id, NoticeDelivery.target_id.in_(enabled))
    free = update(NoticeDelivery).where(*mine, NoticeDelivery.status != SENDING)
    target_id = session.scalar(free.values(again).returning(NoticeDelivery.target_id))
    if target_id is None:
        return False
    resume_target(session, target_id)
    return True
