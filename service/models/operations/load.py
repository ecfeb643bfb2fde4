"""What loads the database and who loads the service, for the metrics: figures without names."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select, text

from service.models.audits.audits import ACCOUNT, QUEUED, Audit

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
