"""Figures of the whole service, for the admin page and the metrics.

Unfinished items are read from partial indexes; totals count whole tables.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from service.models.audits.audits import PROCESSING, QUEUED, Audit
from service.models.billing.payments import Credit, PaymentEvent
from service.models.imports.span_batches import SpanBatch
from service.models.mail.outbox import Mail
from service.models.notices.deliveries import NoticeDelivery
from service.models.sending import Outgoing


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
    kinds = (Audit.source, Audit.status)
    query = select(*kinds, func.count(), func.min(Audit.created_at))
    unfinished = query.where(Audit.status.in_((QUEUED, PROCESSING)))
    return [
        Waiting(*row) for row in connection.execute(unfinished.group_by(*kinds).order_by(*kinds))
    ]


def list_waiting_mails(connection: Connection) -> Sequence[Waiting]:
    return _list_unsent(connection, Mail)


def list_waiting_notices(connection: Connection) -> Sequence[Waiting]:
    return _list_unsent(connection, NoticeDelivery)


def _list_unsent(connection: Connection, table: type[Outgoing]) -> Sequence[Waiting]:
    kinds = (table.kind, table.status)
    query = select(*kinds, func.count(), func.min(table.queued_at)).where(table.is_unsent())
    rows = connection.execute(query.group_by(*kinds).order_by(*kinds))
    return [Waiting(*row) for row in rows]


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
