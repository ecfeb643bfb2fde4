"""Imports by day: an account's batches per client, its uploads, and the audits of the account.

Every query reads the audits of some days, whatever the number of days before them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Date,
    Select,
    bindparam,
    cast,
    func,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

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

DAYS_SHOWN: Final = 7
CLIENTS_SHOWN: Final = 100
BATCH_LINES_SHOWN: Final = 300
UPLOADS_SHOWN: Final = 50
ACCOUNT_AUDITS_SHOWN: Final = 25

_DAY: Final = cast(func.timezone("UTC", Audit.created_at), Date)
_HAS_REPORT: Final = or_(Audit.status == DONE, Audit.frame_key.is_not(None))
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


class Client(NamedTuple):
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
    session: Session, account_id: str, chosen: Chosen, until: date | None = None
) -> Days | None:
    """Return the days that end with the newest import until a day; None if there is none."""
    values, names = _parameters(account_id, chosen)
    found = _find_time(session, _newest(names, is_bounded=until is not None), values, until)
    if found is None:
        return None
    last = found.astimezone(UTC).date()
    first = last - timedelta(days=DAYS_SHOWN - 1)
    before = first - timedelta(days=1)
    older = _find_time(session, _newest(names, is_bounded=True), values, before)
    newer = None if until is None else _find_time(session, _oldest(names), values, last)
    return Days(
        first,
        last,
        newer=newer and newer.astimezone(UTC).date() + timedelta(days=DAYS_SHOWN - 1),
        older=older and older.astimezone(UTC).date(),
    )


def _find_time(
    session: Session, query: Select[datetime], values: Mapping[str, Any], until: date | None
) -> datetime | None:
    return session.scalar(query, {**values, "end": until and _end_of(until)})


@cache
def _newest(names: tuple[str, ...], *, is_bounded: bool) -> Select[datetime]:
    """Return the query of the newest audit that matches, or of the newest before an end."""
    at = Audit.created_at
    before = [at < bindparam("end")] if is_bounded else []
    return select(at).where(*_matching(names), *before).order_by(at.desc()).limit(1)


@cache
def _oldest(names: tuple[str, ...]) -> Select[datetime]:
    """Return the query of the oldest audit that matches, from an end on."""
    at = Audit.created_at
    return select(at).where(*_matching(names), at >= bindparam("end")).order_by(at).limit(1)


def list_clients(session: Session, account_id: str) -> Sequence[Client]:
    """Return an account's clients, those that were seen last first.

    Each step of the recursion finds the next client in an index, so its cost is that of the number
    of clients, not of batches.
    """
    rows = session.execute(_CLIENTS, {"account_id": account_id, "most": CLIENTS_SHOWN})
    return [Client(row.client or None, row.environment or None, row.last_seen) for row in rows]


def list_batches(
    session: Session, account_id: str, days: Days, chosen: Chosen
) -> Sequence[Batches]:
    """Return the batches of some days, in a line for each day and client.

    One line more than `BATCH_LINES_SHOWN` says that there are others.
    """
    query, values = _of_days(account_id, days, chosen, INGEST)
    return [Batches(*row) for row in session.execute(query.limit(BATCH_LINES_SHOWN + 1), values)]


@cache
def _batches() -> Select[*tuple[Any, ...]]:
    """Return the query of all batches; building it takes longer than running it."""
    columns = (
        *(_DAY, Audit.client, Audit.environment, func.count()),
        func.coalesce(func.sum(Audit.records), 0),
        func.coalesce(func.sum(Audit.total_spend_usd).filter(_HAS_REPORT), 0),
        func.count().filter(Audit.status == FAILED),
        func.count().filter(Audit.status.in_((QUEUED, PROCESSING))),
        func.max(Audit.created_at),
    )
    query = select(*columns).group_by(_DAY, Audit.client, Audit.environment)
    newest = (_DAY.desc(), func.max(Audit.created_at).desc())
    return query.order_by(*newest)


def list_uploads(
    session: Session,
    account_id: str,
    days: Days,
    chosen: Chosen,
    after: ColumnElement[Any] | None = None,
) -> Sequence[OneAudit]:
    """Return the uploads of some days, newest first, up to one more than `UPLOADS_SHOWN`.

    `after` is the position of the upload after which the list continues.
    """
    query, values = _of_days(account_id, days, chosen, UPLOAD)
    if after is not None:
        query = query.where(tuple_(Audit.created_at, Audit.id) < after)
    return [OneAudit(*row) for row in session.execute(query.limit(UPLOADS_SHOWN + 1), values)]


def list_account_audits(
    session: Session, account_id: str, days: Days, chosen: Chosen
) -> Sequence[OneAudit]:
    """Return the audits of the account on some days, newest first."""
    query, values = _of_days(account_id, days, chosen, ACCOUNT)
    return [OneAudit(*row) for row in session.execute(query.limit(ACCOUNT_AUDITS_SHOWN), values)]


def _of_days(
    account_id: str, days: Days, chosen: Chosen, source: str
) -> tuple[Select[*tuple[Any, ...]], Mapping[str, Any]]:
    """Return the query of a source's lines, and its parameters."""
    values, names = _parameters(account_id, chosen)
    return _of_source(source, names), {
        **values,
        "begin": _begin_of(days.first),
        "end": _end_of(days.last),
    }


@cache
def _of_source(source: str, names: tuple[str, ...]) -> Select[*tuple[Any, ...]]:
    lines = _batches() if source == INGEST else _lines()
    within = (Audit.created_at >= bindparam("begin"), Audit.created_at < bindparam("end"))
    return lines.where(*_matching(names), Audit.source == source, *within)


@cache
def _lines() -> Select[*tuple[Any, ...]]:
    """Return the query of all lines of one audit; building it takes longer than running it."""
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


def _parameters(account_id: str, chosen: Chosen) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the parameters that `_matching` needs, and the names of the filters among them."""
    filters = {name: value for name, value in chosen._asdict().items() if value}
    return {"account_id": account_id, **filters}, tuple(filters)


def _matching(names: Iterable[str]) -> list[ColumnElement[bool]]:
    """Match the audits of an account with some filters, by parameters of these names."""
    return [getattr(Audit, name) == bindparam(name) for name in ("account_id", *names)]


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
