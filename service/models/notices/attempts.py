"""Attempts at deliveries: claims with a lease and a token, as the mail outbox has them.

All times are the database's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Update,
    and_,
    exists,
    func,
    or_,
    select,
    update,
)

from service.models.notices.deliveries import (
    DELIVERED,
    FAILED,
    IS_UNSENT,
    QUEUED,
    SENDING,
    NoticeDelivery,
)
from service.models.notices.targets import (
    FAILING,
    GONE,
    NoticeTarget,
    disable_target,
    get_address,
    pause_target,
    resume_target,
)

GIVEN_UP, DISABLED = "given up", "target disabled"  # errors, beside the types of exceptions

_LONGEST_EFFORT: Final = timedelta(days=1)
_FIRST_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 4 * 3600.0
_PAGE: Final = 1_000

_DROPPED: Final = and_(
    NoticeDelivery.status == SENDING, NoticeDelivery.lease_expires_at < func.now()
)
_IS_OVERDUE: Final = NoticeDelivery.queued_at <= func.now() - _LONGEST_EFFORT
_TARGET_IS_READY: Final = NoticeDelivery.target_id.in_(
    select(NoticeTarget.id).where(
        NoticeTarget.disabled_at.is_(None), NoticeTarget.resume_at <= func.now()
    )
)
_NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """The right to send one delivery, proved by its `token`; `attempt` counts from 1."""

    delivery_id: str
    token: str
    attempt: int
    target_id: str
    kind: str
    url: str = field(repr=False)
    secret: str = field(repr=False)
    event_id: str
    event_type: str
    payload: dict[str, Any] = field(repr=False)
    created_at: datetime


def claim_delivery(
    connection: Connection, delivery_id: str, lease_seconds: float
) -> Dispatch | None:
    """Claim the delivery if it is due, or its lease has expired, and its target is ready."""
    token = uuid4().hex
    is_due = and_(NoticeDelivery.status == QUEUED, NoticeDelivery.next_attempt_at <= func.now())
    is_free = and_(or_(is_due, _DROPPED), _TARGET_IS_READY)
    columns = ("target_id", "event_id", "event_type", "payload", "created_at")
    statement = (
        update(NoticeDelivery)
        .where(NoticeDelivery.id == delivery_id, is_free, ~_IS_OVERDUE)
        .values(
            status=SENDING,
            attempts=NoticeDelivery.attempts + 1,
            lease_token=token,
            lease_expires_at=_in(lease_seconds),
        )
        .returning(NoticeDelivery.attempts, *(getattr(NoticeDelivery, name) for name in columns))
    )
    row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    values: dict[str, Any] = {name: getattr(row, name) for name in columns}
    address = get_address(connection, row.target_id)._asdict()
    return Dispatch(delivery_id=delivery_id, token=token, attempt=row.attempts, **values, **address)


def finish_delivery(connection: Connection, dispatch: Dispatch, status_code: int) -> None:
    """Mark the notice as delivered, even if another worker has claimed it since."""
    done = {"status": DELIVERED, "delivered_at": func.now(), "error": None, **_NO_LEASE}
    named = update(NoticeDelivery).where(NoticeDelivery.id == dispatch.delivery_id)
    connection.execute(named.values(done | {"status_code": status_code}))
    resume_target(connection, dispatch.target_id)


def postpone_delivery(
    connection: Connection, dispatch: Dispatch, error: str, status_code: int | None
) -> None:
    """Schedule another attempt, after a pause that grows fourfold with each attempt."""
    pause = min(_FIRST_PAUSE_SECONDS * 4 ** (dispatch.attempt - 1), _LONGEST_PAUSE_SECONDS)
    again = {"status": QUEUED, "next_attempt_at": _in(pause), **_NO_LEASE}
    failed = {"error": error, "status_code": status_code}
    if connection.execute(_held(dispatch).values(again | failed)).rowcount:
        pause_target(connection, dispatch.target_id)


def drop_target(
    connection: Connection, dispatch: Dispatch, error: str, status_code: int
) -> str | None:
    """Disable a target that says it is gone; return the ID of the mail about it."""
    failed = {"status": FAILED, "error": error, "status_code": status_code, **_NO_LEASE}
    if not connection.execute(_held(dispatch).values(failed)).rowcount:
        return None
    mail_id = disable_target(connection, dispatch.target_id, GONE)
    _fail_waiting(connection, dispatch.target_id)
    return mail_id


def fail_overdue_deliveries(connection: Connection) -> Sequence[str]:
    """Fail deliveries after a day without success, and disable targets that took nothing since.

    Return the IDs of the deliveries.
    """
    statement = (
        update(NoticeDelivery)
        .where(IS_UNSENT, or_(NoticeDelivery.status == QUEUED, _DROPPED), _IS_OVERDUE)
        .values(status=FAILED, error=GIVEN_UP, **_NO_LEASE)
        .returning(NoticeDelivery.id, NoticeDelivery.target_id, NoticeDelivery.attempts)
        .returning(NoticeDelivery.queued_at)
    )
    failed = connection.execute(statement).all()
    for row in failed:
        took_one = exists().where(
            NoticeDelivery.target_id == row.target_id, NoticeDelivery.delivered_at >= row.queued_at
        )
        # Without an attempt, the failure was ours.
        if row.attempts and disable_target(connection, row.target_id, FAILING, ~took_one):
            _fail_waiting(connection, row.target_id)
    return [row.id for row in failed]


def list_due_deliveries(
    connection: Connection, older_than_seconds: float
) -> Sequence[Row[str, int]]:
    """Return the IDs and attempts of deliveries that are due, longest due first."""
    is_due = and_(
        NoticeDelivery.status == QUEUED, NoticeDelivery.next_attempt_at < _in(-older_than_seconds)
    )
    statement = select(NoticeDelivery.id, NoticeDelivery.attempts)
    due = statement.where(IS_UNSENT, or_(is_due, _DROPPED), _TARGET_IS_READY)
    order = (NoticeDelivery.next_attempt_at, NoticeDelivery.id)
    return connection.execute(due.order_by(*order).limit(_PAGE)).all()


def _fail_waiting(connection: Connection, target_id: str) -> None:
    """Fail what a disabled target would have got; a person can resend it."""
    waiting = or_(NoticeDelivery.status == QUEUED, _DROPPED)
    theirs = update(NoticeDelivery).where(NoticeDelivery.target_id == target_id, waiting)
    connection.execute(theirs.values(status=FAILED, error=DISABLED, **_NO_LEASE))


def _held(dispatch: Dispatch) -> Update:
    """Return an UPDATE that matches only while the token holds the delivery (the fence)."""
    mine = (NoticeDelivery.id == dispatch.delivery_id, NoticeDelivery.lease_token == dispatch.token)
    return update(NoticeDelivery).where(IS_UNSENT, *mine)


def _in(seconds: float) -> ColumnElement[datetime]:
    return func.now() + timedelta(seconds=seconds)
