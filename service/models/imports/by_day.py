"""Imports by day: an account's batches per client, its uploads, and the audits of the account.

Every query reads the audits of some days, whatever the number of days before them.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Date,
    Select,
    cast,
    func,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import aliased

from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    FAILED,
    INGEST,
    PROCESSING,
    QUEUED,
    UPLOAD,
    Audit,
)
from service.models.base import Executor

DAYS_SHOWN: Final = 7
CLIENTS_SHOWN: Final = 100
BATCH_LINES_SHOWN: Final = 300
UPLOADS_SHOWN: Final = 50
ACCOUNT_AUDITS_SHOWN: Final = 25

_DAY: Final = cast(func.timezone("UTC", Audit.created_at), Date)
# An audit that is being recalculated has the figures of its earlier report.
HAS_REPORT: Final = or_(Audit.status == DONE, Audit.frame_key.is_not(None))
_CLIENTS: Final = text(
    """
    WITH RECURSIVE clients AS (
      (SELECT coalesce(client, '') AS client, coalesce(environment, '') AS environment
       FROM audits WHERE account_id = :account_id AND source = 'ingest'
       ORDER BY account_id, coalesce(client, ''), coalesce(environment, ''), created_at LIMIT 1)
      UNION ALL
      SELECT next.client, next.environment FROM clients, LATERAL (
        SELECT coalesce(client, '') AS client, coalesce(environment, '') AS environment
        FROM audits WHERE account_id = :account_id AND source = 'ingest'
          AND (coalesce(client, ''), coalesce(environment, '')) >
            (clients.client, clients.environment)
        ORDER BY account_id, coalesce(client, ''), coalesce(environment, ''), created_at LIMIT 1
      ) AS next
    )
    SELECT client, environment, (
      SELECT created_at FROM audits WHERE account_id = :account_id AND source = 'ingest'
        AND coalesce(audits.client, '') = found.client
        AND coalesce(audits.environment, '') = found.environment
      ORDER BY created_at DESC LIMIT 1
    ) AS last_seen
    FROM (SELECT * FROM clients LIMIT :most) AS found
    ORDER BY last_seen DESC, client, environment
    """
)


class Chosen(NamedTuple):
    """The filters of the page; empty ones match everything."""

    status: str = ""
    source: str = ""


class Days(NamedTuple):
    """The days of a page, and the last days of the pages before and after it."""

    first: date
    last: date
    newer: date | None
    older: date | None


class SendingClient(NamedTuple):
    """An ingest key in one environment."""

    client: str | None
    environment: str | None
    last_seen: datetime


class Batches(NamedTuple):
    """The batches of one client on one day."""

    day: date
    client: str | None
    environment: str | None
    batches: int
    calls: int
    spend_usd: Decimal
    failed: int
    unfinished: int
    last_seen: datetime


class OneAudit(NamedTuple):
    """An upload, or an audit of the account. `copy_of` is when its file was uploaded first."""

    day: date
    id: str
    created_at: datetime
    label: str | None
    status: str
    calls: int
    spend_usd: Decimal
    error: str | None
    window_days: int | None
    copy_of: datetime | None


def find_days(
    session: Executor, account_id: str, chosen: Chosen, until: date | None = None
) -> Days | None:
    """Return the days that end with the newest import until a day; None if there is none."""
    at, matches = Audit.created_at, _matching(account_id, chosen)
    newest = select(at).where(*matches).order_by(at.desc()).limit(1)
    found = session.scalar(newest if until is None else newest.where(at < _end_of(until)))
    if found is None:
        return None
    last = found.astimezone(UTC).date()
    first = last - timedelta(days=DAYS_SHOWN - 1)
    older = session.scalar(newest.where(at < _begin_of(first)))
    newer = None
    if until is not None:
        oldest = select(at).where(*matches, at >= _end_of(last)).order_by(at)
        newer = session.scalar(oldest.limit(1))
    return Days(
        first,
        last,
        newer=newer and newer.astimezone(UTC).date() + timedelta(days=DAYS_SHOWN - 1),
        older=older and older.astimezone(UTC).date(),
    )


def list_clients(session: Executor, account_id: str) -> Sequence[SendingClient]:
    """Return an account's clients, those that were seen last first.

    Each step of the recursion finds the next client in an index, so its cost is that of the number
    of clients, not of batches.
    """
    rows = session.execute(_CLIENTS, {"account_id": account_id, "most": CLIENTS_SHOWN})
    return [
        SendingClient(row.client or None, row.environment or None, row.last_seen) for row in rows
    ]


def list_batches(
    session: Executor, account_id: str, days: Days, chosen: Chosen
) -> Sequence[Batches]:
    """Return the batches of some days, in a line for each day and client.

    One line more than `BATCH_LINES_SHOWN` says that there are others.
    """
    columns = (
        *(_DAY, Audit.client, Audit.environment, func.count()),
        func.coalesce(func.sum(Audit.records), 0),
        func.coalesce(func.sum(Audit.total_spend_usd).filter(HAS_REPORT), 0),
        func.count().filter(Audit.status == FAILED),
        func.count().filter(Audit.status.in_((QUEUED, PROCESSING))),
        func.max(Audit.created_at),
    )
    query = select(*columns).where(*_of_days(account_id, days, chosen, INGEST))
    query = query.group_by(_DAY, Audit.client, Audit.environment)
    query = query.order_by(_DAY.desc(), func.max(Audit.created_at).desc())
    return [Batches(*row) for row in session.execute(query.limit(BATCH_LINES_SHOWN + 1))]


def list_uploads(
    session: Executor,
    account_id: str,
    days: Days,
    chosen: Chosen,
    after: ColumnElement[Any] | None = None,
) -> Sequence[OneAudit]:
    """Return the uploads of some days, newest first, up to one more than `UPLOADS_SHOWN`.

    `after` is the position of the upload after which the list continues.
    """
    query = _lines().where(*_of_days(account_id, days, chosen, UPLOAD))
    if after is not None:
        query = query.where(tuple_(Audit.created_at, Audit.id) < after)
    return [OneAudit(*row) for row in session.execute(query.limit(UPLOADS_SHOWN + 1))]


def list_account_audits(
    session: Executor, account_id: str, days: Days, chosen: Chosen
) -> Sequence[OneAudit]:
    """Return the audits of the account on some days, newest first."""
    query = _lines().where(*_of_days(account_id, days, chosen, ACCOUNT))
    return [OneAudit(*row) for row in session.execute(query.limit(ACCOUNT_AUDITS_SHOWN))]


def _of_days(account_id: str, days: Days, chosen: Chosen, source: str) -> list[ColumnElement[bool]]:
    """Match the audits of a source on some days."""
    within = (Audit.created_at >= _begin_of(days.first), Audit.created_at < _end_of(days.last))
    return [*_matching(account_id, chosen), Audit.source == source, *within]


# SQLAlchemy adapts every column of an alias, which takes longer than running the query.
@cache
def _lines() -> Select[*tuple[Any, ...]]:
    """Return the lines of one audit each, newest first."""
    earlier = aliased(Audit)
    first = select(func.min(earlier.created_at)).where(
        earlier.account_id == Audit.account_id,
        earlier.content_hash == Audit.content_hash,
        earlier.status != FAILED,
        earlier.created_at < Audit.created_at,
    )
    columns: tuple[Any, ...] = (
        *(_DAY, Audit.id, Audit.created_at, Audit.label, Audit.status, Audit.records),
        *(Audit.total_spend_usd, Audit.error, Audit.window_days, first.scalar_subquery()),
    )
    return select(*columns).order_by(Audit.created_at.desc(), Audit.id.desc())


def _matching(account_id: str, chosen: Chosen) -> list[ColumnElement[bool]]:
    filters = {name: value for name, value in chosen._asdict().items() if value}
    own = {"account_id": account_id, **filters}
    return [getattr(Audit, name) == value for name, value in own.items()]


def of_client(day: date, client: str, environment: str) -> list[Any]:
    """Return the conditions for the batches of one client on one day; empty names are unknown."""
    return [
        Audit.source == INGEST,
        Audit.created_at >= _begin_of(day),
        Audit.created_at < _end_of(day),
        func.coalesce(Audit.client, "") == client,
        func.coalesce(Audit.environment, "") == environment,
    ]


def _begin_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _end_of(day: date) -> datetime:
    return _begin_of(day) + timedelta(days=1)
