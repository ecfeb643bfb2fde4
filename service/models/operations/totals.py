"""Figures of the whole service, for the admin page and the metrics.

Unfinished items are read from partial indexes; totals count whole tables.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select, text

from service.models.audits.audits import ACCOUNT, PROCESSING, QUEUED, Audit
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


# Accounts appear by their rank alone, so the number of series stays small.
RANKS: Final = 5
_HOUR: Final = timedelta(hours=1)
_CONNECTIONS: Final = text(
    "SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() GROUP BY 1"
)
_DATABASE: Final = text(
    "SELECT pg_database_size(current_database()), current_setting('max_connections')::int,"
    " (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8"
    " FROM pg_stat_activity WHERE datname = current_database())"
)


class DatabaseLoad(NamedTuple):
    """The size of the database, its connections by state, and the age of the oldest transaction."""

    size_bytes: int
    max_connections: int
    oldest_transaction_seconds: float
    connections: dict[str, int]


class TenantLoad(NamedTuple):
    """The accounts that sent records within an hour, and what the largest sent and have queued."""

    active: int
    records: Sequence[int]
    queued_audits: Sequence[int]


def read_database_load(connection: Connection) -> DatabaseLoad:
    states = {state: number for state, number in connection.execute(_CONNECTIONS)}
    size, most, oldest = connection.execute(_DATABASE).one()
    return DatabaseLoad(size, most, oldest, states)


def read_tenant_load(connection: Connection) -> TenantLoad:
    """Return the largest first, as many as there are ranks; absent accounts count as 0."""
    recent = (Audit.source != ACCOUNT, Audit.created_at > func.now() - _HOUR)
    records = func.coalesce(func.sum(Audit.records), 0).label("number")
    sent = select(records).where(*recent).group_by(Audit.account_id).subquery()
    active = connection.scalar(select(func.count()).select_from(sent))
    largest = connection.scalars(select(sent.c.number).order_by(sent.c.number.desc()).limit(RANKS))
    number = func.count().label("number")
    waiting = select(number).where(Audit.status == QUEUED).group_by(Audit.account_id)
    queued = connection.scalars(waiting.order_by(number.desc()).limit(RANKS))
    return TenantLoad(active or 0, _padded(largest.all()), _padded(queued.all()))


def _padded(numbers: Sequence[int]) -> list[int]:
    return [*map(int, numbers), *[0] * (RANKS - len(numbers))]
