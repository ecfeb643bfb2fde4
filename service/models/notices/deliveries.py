"""Deliveries: one row per event and target, posted in the transaction of the event."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    UniqueConstraint,
    and_,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship, synonym

from service.models.base import new_id
from service.models.notices.events import EVENTS, TEST, event_id_of, new_event_id
from service.models.notices.targets import (
    FAILING,
    GONE,
    NoticeTarget,
    disable_target,
    pause_target,
    resume_target,
)
from service.models.sending import (
    FAILED,
    NO_LEASE,
    QUEUED,
    SENDING,
    Outgoing,
    is_waiting,
    table_args,
)

SHOWN_DELIVERIES: Final = 50
_DISABLED: Final = "target disabled"  # an error, beside the types of exceptions


class NoticeDelivery(Outgoing):
    NAME, ID_NAME, SENT = "notice", "delivery_id", "delivered"
    FAILED_ACTION, WOKEN_ACTION = "notice_failed", "notice_woken"
    PAUSE_FACTOR, LONGEST_PAUSE_SECONDS = 4, 4 * 3600.0
    NO_RESPONSE = MappingProxyType({"status_code": None})

    __tablename__ = "notice_deliveries"
    __table_args__ = (
        *table_args(__tablename__, SENT),
        UniqueConstraint("target_id", "event_id"),
        Index("ix_notice_deliveries_target", "target_id", "created_at"),
    )

    target_id: Mapped[str] = mapped_column(ForeignKey("notice_targets.id", ondelete="CASCADE"))
    event_id: Mapped[str]  # the same over all attempts, so that receivers can drop repeats
    event_type: Mapped[str]
    kind: Mapped[str] = synonym("event_type")
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    status_code: Mapped[int | None]  # of the last response
    delivered_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None] = synonym("delivered_at")
    target: Mapped[NoticeTarget] = relationship(lazy="immediate")

    @classmethod
    def is_ready(cls) -> ColumnElement[bool]:
        ready = (NoticeTarget.disabled_at.is_(None), NoticeTarget.resume_at <= func.now())
        return cls.target_id.in_(select(NoticeTarget.id).where(*ready))

    def after_success(self, connection: Connection) -> None:
        resume_target(connection, self.target_id)

    def after_pause(self, connection: Connection) -> None:
        pause_target(connection, self.target_id)

    def after_failure(self, connection: Connection) -> None:
        """Disable a target that says it is gone; the sweeper sends the mail about it."""
        self._disable(connection, GONE)

    def after_giving_up(self, connection: Connection) -> None:
        """Disable a target that took nothing since."""
        took_one = exists().where(
            NoticeDelivery.target_id == self.target_id,
            NoticeDelivery.delivered_at >= self.queued_at,
        )
        if self.attempts:  # without an attempt, the failure was ours
            self._disable(connection, FAILING, ~took_one)

    def _disable(
        self, connection: Connection, reason: str, *conditions: ColumnElement[bool]
    ) -> None:
        """Fail what the target would have got, too; a person can resend it."""
        if disable_target(connection, self.target_id, reason, *conditions):
            theirs = (NoticeDelivery.target_id == self.target_id, is_waiting(NoticeDelivery))
            failed = {"status": FAILED, "error": _DISABLED, **NO_LEASE}
            connection.execute(update(NoticeDelivery).where(*theirs).values(failed))


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
    if session.scalar(select(exists().where(*theirs, NoticeDelivery.is_unsent()))):
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


def list_deliveries(session: Session, account_id: str) -> Sequence[NoticeDelivery]:
    """Return the account's latest deliveries, newest first."""
    owned = select(NoticeDelivery).join(NoticeTarget).where(NoticeTarget.account_id == account_id)
    order = (NoticeDelivery.created_at.desc(), NoticeDelivery.id)
    return session.scalars(owned.order_by(*order).limit(SHOWN_DELIVERIES)).all()


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
