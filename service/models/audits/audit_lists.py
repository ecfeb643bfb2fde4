"""Lists of audits and of findings: those of the API, and of pages.

They read only what is shown: with whole rows, a page takes longer.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, func, literal, or_, select, tuple_
from sqlalchemy.orm import Session

from detectors.wording.imports import ShownSavings, show_savings
from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    INGEST,
    PRICED_FINDINGS,
    Audit,
    Cursor,
    FindingRow,
    ReportRow,
    of_source,
)
from service.models.base import Executor
from service.models.imports.by_day import HAS_REPORT, of_client

PAGE_SIZE: Final = 25
RECENT_AUDITS: Final = 50
_RANKS_PER_AUDIT: Final = 5
_TOP_FINDINGS: Final = 6
_AUDIT: Final = Audit.__table__.c
_FINDING: Final = FindingRow.__table__.c
_NEWEST: Final = (_AUDIT.created_at, _AUDIT.id)


class AuditFilter(NamedTuple):
    """The filters of the API's list: status, earliest time, cursor and source."""

    limit: int
    status: str | None = None
    since: datetime | None = None
    after: Cursor | None = None
    source: str | None = None


def list_audits(
    session: Executor, account_id: str, wanted: AuditFilter, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return columns of the account's audits, newest first; ties are sorted by ID, descending."""
    query = select(*(_AUDIT[name] for name in columns)).where(
        _AUDIT.account_id == account_id, of_source(wanted.source)
    )
    if wanted.status is not None:
        query = query.where(_AUDIT.status == wanted.status)
    if wanted.since is not None:
        query = query.where(_AUDIT.created_at >= wanted.since)
    if wanted.after is not None:
        query = query.where(tuple_(*_NEWEST) < wanted.after)
    rows = session.execute(query.order_by(*(at.desc() for at in _NEWEST)).limit(wanted.limit))
    return [dict(zip(columns, row, strict=True)) for row in rows]


class Reported(NamedTuple):
    """What a choice of an audit shows of it."""

    id: str
    created_at: datetime
    source: str
    total_spend_usd: Decimal
    window_days: int | None


def list_reported(session: Session, account_id: str, limit: int) -> Sequence[Reported]:
    """Return the newest audits of the account, then the newest of batches and files.

    Of each kind, the latest `limit` are read, and those that still have a report are returned.
    """
    columns = [getattr(Audit, name) for name in (*Reported._fields, "report_deleted_at")]
    done = select(*columns).where(Audit.account_id == account_id, Audit.status == DONE)
    newest = done.order_by(Audit.created_at.desc(), Audit.id.desc()).limit(limit)
    rows = [
        row
        for source in (ACCOUNT, None)
        for row in session.execute(newest.where(of_source(source)))
    ]
    return [Reported(*row[:-1]) for row in rows if row.report_deleted_at is None]


def find_findings(
    session: Executor, account_id: str, audit_id: str, columns: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Return columns of the audit's findings by rank; None if the account has no such audit."""
    rows = session.execute(
        select(*(_FINDING[name] for name in columns))
        .select_from(Audit.__table__.outerjoin(FindingRow.__table__))
        .where(_AUDIT.account_id == account_id, _AUDIT.id == audit_id)
        .order_by(_FINDING.rank)
    ).all()
    if not rows:
        return None
    return [dict(zip(columns, row, strict=True)) for row in rows if row.id is not None]


Published = tuple[Audit, datetime]


def list_page(session: Session, account_id: str, after: str, limit: int) -> Sequence[Published]:
    """Return audits and the times of their reports, newest first, after the given audit, if any."""
    query = _recalculable(account_id)
    position = find_position(session, account_id, after)
    if position is not None:
        query = query.where(tuple_(Audit.created_at, Audit.id) < position)
    newest = (Audit.created_at.desc(), Audit.id.desc())
    return _read(session, query.order_by(*newest).limit(limit))


def lock_each(session: Session, account_id: str, audit_ids: Sequence[str]) -> Sequence[Published]:
    """Return those of the audits that can be recalculated now, with their rows locked."""
    query = _recalculable(account_id).where(Audit.id.in_(audit_ids))
    locked = query.order_by(Audit.id).with_for_update(of=Audit)
    return _read(session, locked.execution_options(populate_existing=True))


def _recalculable(account_id: str) -> Select[*tuple[Any, ...]]:
    has_records = or_(Audit.raw_purged_at.is_(None), Audit.frame_key.is_not(None))
    query = select(Audit, ReportRow.created_at).join(ReportRow, ReportRow.audit_id == Audit.id)
    own = (Audit.account_id == account_id, Audit.status == DONE, of_source(None))
    return query.where(*own, has_records)


def _read(session: Session, query: Select[*tuple[Any, ...]]) -> Sequence[Published]:
    return [(audit, published_at) for audit, published_at in session.execute(query)]


class AuditLine(NamedTuple):
    """An audit in the list, and its number of findings with savings."""

    id: str
    created_at: datetime
    source: str
    status: str
    records: int
    spend_usd: Decimal
    projection: str | None
    observed_days: int
    monthly_factor: float | None
    projected_savings_usd: Decimal
    conditional_savings_high_usd: Decimal | None
    savings_pct: float
    findings: int
    error: str | None

    @property
    def savings(self) -> ShownSavings:
        """Return what its report shows."""
        return show_savings(self, is_batch=self.source == INGEST)


class PageFilter(NamedTuple):
    """The filters of a page: status, source, client and day, and the audit next to the page."""

    status: str = ""
    source: str = ""
    before: str = ""
    after: str = ""
    client_day: "ClientDay | None" = None


class ClientDay(NamedTuple):
    """The day and the client of batches; empty names are unknown."""

    day: date
    client: str
    environment: str


class AuditPage(NamedTuple):
    """A page of audits, newest first; `newer` and `older` are true if there are more pages."""

    rows: Sequence[AuditLine]
    newer: bool
    older: bool


class TopFinding(NamedTuple):
    """The largest instance of a finding in recent imports, and the number of those imports.

    Its dollars are those of the import's calls, as in the list of imports: one is projected to a
    month and another isn't.
    """

    audit_id: str
    id: str
    detector: str
    kind: str
    route: str
    model: str
    confidence: str
    observed_usd: Decimal
    audits: int
    suggested_model: None = None  # which the rows lack


def page_of_audits(
    session: Session, account_id: str, wanted: PageFilter, *, size: int = PAGE_SIZE
) -> AuditPage:
    """Return the page next to the given audit, or the newest page if none is given or found."""
    cursor = find_position(session, account_id, wanted.before or wanted.after)
    is_backward = cursor is not None and not wanted.before
    columns = (
        *(Audit.id, Audit.created_at, Audit.source, Audit.status, Audit.records),
        *(Audit.total_spend_usd, Audit.projection, Audit.observed_days, Audit.monthly_factor),
        *(Audit.projected_savings_usd, Audit.conditional_savings_high_usd, Audit.savings_pct),
        *(PRICED_FINDINGS, Audit.error),
    )
    query: Select[*tuple[Any, ...]] = select(*columns).where(Audit.account_id == account_id)
    if wanted.status:
        query = query.where(Audit.status == wanted.status)
    if wanted.client_day:
        query = query.where(*of_client(*wanted.client_day))
    query = query.where(of_source(wanted.source))
    position = tuple_(Audit.created_at, Audit.id)
    if cursor is not None:
        query = query.where(position > cursor if is_backward else position < cursor)
    order = (Audit.created_at, Audit.id)
    query = query.order_by(*(order if is_backward else (column.desc() for column in order)))
    found = [AuditLine(*row) for row in session.execute(query.limit(size + 1))]
    has_more, rows = len(found) > size, found[:size]
    if is_backward:
        return AuditPage(rows[::-1], newer=has_more, older=True)
    return AuditPage(rows, newer=cursor is not None, older=has_more)


def list_top_findings(session: Session, account_id: str) -> Sequence[TopFinding]:
    """Return the largest findings of recent audits, once per detector, provider, model and route.

    Periods of audits may overlap, so the amounts of several audits are never summed.
    """
    recent = (
        select(Audit.id)
        .where(Audit.account_id == account_id, HAS_REPORT, of_source(None))
        .order_by(Audit.created_at.desc(), Audit.id.desc())
        .limit(RECENT_AUDITS)
        .subquery()
    )
    same = (FindingRow.detector, FindingRow.provider, FindingRow.model, FindingRow.route)
    largest = (FindingRow.observed_cost_impact_usd.desc(), FindingRow.audit_id)
    ranked = (
        select(
            *(FindingRow.audit_id, FindingRow.id, FindingRow.detector),
            *(FindingRow.kind, FindingRow.route, FindingRow.model, FindingRow.confidence),
            FindingRow.observed_cost_impact_usd.label("observed_usd"),
            func.count().over(partition_by=same).label("audits"),
            func.row_number().over(partition_by=same, order_by=largest).label("position"),
        )
        .join(recent, recent.c.id == FindingRow.audit_id)
        .where(FindingRow.rank <= _RANKS_PER_AUDIT, FindingRow.observed_cost_impact_usd > 0)
        .subquery()
    )
    columns = [column for column in ranked.c if column.name != "position"]
    query = select(*columns).where(ranked.c.position == 1)
    ordered = query.order_by(ranked.c.observed_usd.desc(), ranked.c.id).limit(_TOP_FINDINGS)
    return [TopFinding(*row) for row in session.execute(ordered)]


def find_position(session: Executor, account_id: str, audit_id: str) -> ColumnElement[Any] | None:
    """Return the position of an audit in the account's list."""
    if not audit_id:
        return None
    own = (Audit.account_id == account_id, Audit.id == audit_id)
    row = session.execute(select(Audit.created_at, Audit.id).where(*own)).one_or_none()
    return None if row is None else tuple_(literal(row.created_at), literal(row.id))
