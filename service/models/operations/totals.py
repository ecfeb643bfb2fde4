"""Figures of the whole service, for the admin page and the metrics.

Unfinished items are read from partial indexes; totals count whole tables.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from service.models.audits.audits import PROCESSING, QUEUED, Audit
from service.models.billing.payments import Credit, PaymentEvent
from service.models.imports.span_batches import SpanBatch
from service.models.mail.outbox import QUEUED as MAIL_QUEUED
from service.models.mail.outbox import SENDING, Mail
from service.models.notices.deliveries import IS_UNSENT, NoticeDelivery


class Waiting(NamedTuple):
    """The number of unfinished items of one kind and status, and the time of the oldest."""

    kind: str
    status: str
    number: int
    oldest_at: datetime


class Credits(NamedTuple):
    """The number of credits. A returned credit stays counted as `returned`."""

    granted: int
    claimed: int
    returned: int
    revoked: int
    free: int


def list_waiting_audits(connection: Connection) -> Sequence[Waiting]:
    return [Waiting(*row) for row in connection.execute(_waiting_audits())]


@cache
def _waiting_audits() -> Select[*tuple[Any, ...]]:
    """Return a query that is built once, because that takes longer than running it."""
    return (
        select(Audit.source, Audit.status, func.count(), func.min(Audit.created_at))
        .where(Audit.status.in_((QUEUED, PROCESSING)))
        .group_by(Audit.source, Audit.status)
        .order_by(Audit.source, Audit.status)
    )


def list_waiting_mails(connection: Connection) -> Sequence[Waiting]:
    return [Waiting(*row) for row in connection.execute(_waiting_mails())]


@cache
def _waiting_mails() -> Select[*tuple[Any, ...]]:
    return (
        select(Mail.kind, Mail.status, func.count(), func.min(Mail.created_at))
        .where(Mail.status.in_((MAIL_QUEUED, SENDING)))
        .group_by(Mail.kind, Mail.status)
        .order_by(Mail.kind, Mail.status)
    )


def list_waiting_notices(connection: Connection) -> Sequence[Waiting]:
    query = (
        select(
            NoticeDelivery.event_type,
            NoticeDelivery.status,
            func.count(),
            func.min(NoticeDelivery.queued_at),
        )
        .where(IS_UNSENT)
        .group_by(NoticeDelivery.event_type, NoticeDelivery.status)
        .order_by(NoticeDelivery.event_type, NoticeDelivery.status)
    )
    return [Waiting(*row) for row in connection.execute(query)]


def find_waiting_spans(connection: Connection) -> tuple[int, datetime | None]:
    """Return the number of calls in spans that no import has yet, and when the oldest came."""
    query = select(func.coalesce(func.sum(SpanBatch.calls), 0), func.min(SpanBatch.received_at))
    calls, oldest_at = connection.execute(query.where(SpanBatch.calls > 0)).one()
    return calls, oldest_at


def count_audits(connection: Connection) -> dict[str, int]:
    return _counts(connection, Audit.status)


def count_mails(connection: Connection) -> dict[str, int]:
    return _counts(connection, Mail.status)


def count_notices(connection: Connection) -> dict[str, int]:
    return _counts(connection, NoticeDelivery.status)


def count_events(connection: Connection) -> dict[str, int]:
    """Count the stored events by payment provider."""
    return _counts(connection, PaymentEvent.provider)


def count_credits(connection: Connection) -> Credits:
    query = select(
        func.count(),
        func.count(Credit.audit_id),
        func.count(Credit.returned_at),
        func.count(Credit.revoked_at),
        func.count().filter(Credit.audit_id.is_(None), Credit.revoked_at.is_(None)),
    )
    return Credits(*connection.execute(query.select_from(Credit)).one())


def _counts(connection: Connection, column: object) -> dict[str, int]:
    rows = connection.execute(select(column, func.count()).group_by(column))  # type: ignore[call-overload]
    return {name: count for name, count in rows}
