"""What an account's dashboard reads: its runs page by page, its days, what was found lately."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Date, Select, cast, func, literal, select, tuple_
from sqlalchemy.orm import Session

from service.models.audits.audits import DONE, Audit, FindingRow

PAGE_SIZE: Final = 25
DAYS_SHOWN: Final = 90
RECENT_AUDITS: Final = 50
_RANKS_LOOKED_AT: Final = 5  # of each recent audit
_TOP_FINDINGS: Final = 6

_AVOIDABLE_USD: Final = func.coalesce(
    Audit.total_spend_usd * Audit.projected_savings_usd / func.nullif(Audit.projected_spend_usd, 0),
    0,
)


class Run(NamedTuple):
    """A line of the ledger. What a run could have saved is a part of what it spent."""

    id: str
    created_at: datetime
    source: str
    status: str
    records: int
    spend_usd: Decimal
    avoidable_usd: Decimal
    savings_pct: float
    findings: int
    error: str | None


class Wanted(NamedTuple):
    """Which runs: of a status, of a source, older or newer than a run; empty for all."""

    status: str = ""
    source: str = ""
    before: str = ""
    after: str = ""


class Runs(NamedTuple):
    """A page of the ledger, newest first; `newer` and `older` tell whether there are more."""

    rows: Sequence[Run]
    newer: bool
    older: bool


class Day(NamedTuple):
    """What the runs of a day came to."""

    day: date
    spend_usd: Decimal
    avoidable_usd: Decimal


class TopFinding(NamedTuple):
    """A finding at its largest among recent audits, and in how many of them it is."""

    audit_id: str
    id: str
    detector: str
    route: str
    model: str
    severity: str
    monthly_cost_impact_usd: Decimal
    audits: int


def page_of_runs(session: Session, account_id: str, wanted: Wanted) -> Runs:
    """The page beside the run that is named; the newest where none is, or none of the account's."""
    place = _find_place(session, account_id, wanted.before or wanted.after)
    is_backward = place is not None and not wanted.before
    query = _runs(account_id, wanted)
    spot = tuple_(Audit.created_at, Audit.id)
    if place is not None:
        query = query.where(spot > place if is_backward else spot < place)
    order = (Audit.created_at, Audit.id)
    query = query.order_by(*(order if is_backward else (one.desc() for one in order)))
    found = [Run(*row) for row in session.execute(query.limit(PAGE_SIZE + 1))]
    has_more, rows = len(found) > PAGE_SIZE, found[:PAGE_SIZE]
    if is_backward:
        return Runs(rows[::-1], newer=has_more, older=True)
    return Runs(rows, newer=place is not None, older=has_more)


def list_days(session: Session, account_id: str, now: datetime) -> Sequence[Day]:
    """What the finished runs of the last days spent and could have saved, by day of acceptance."""
    day = cast(func.timezone("UTC", Audit.created_at), Date)
    query = (
        select(day, func.sum(Audit.total_spend_usd), func.sum(_AVOIDABLE_USD))
        .where(Audit.account_id == account_id, Audit.status == DONE)
        .where(Audit.created_at > now - timedelta(days=DAYS_SHOWN))
        .group_by(day)
        .order_by(day)
    )
    return [Day(*row) for row in session.execute(query)]


def list_top_findings(session: Session, account_id: str) -> Sequence[TopFinding]:
    """The largest findings of the latest finished audits, each detector and place once.

    Months of different audits overlap, so the same finding of several is never summed.
    """
    recent = (
        select(Audit.id)
        .where(Audit.account_id == account_id, Audit.status == DONE)
        .order_by(Audit.created_at.desc(), Audit.id.desc())
        .limit(RECENT_AUDITS)
        .subquery()
    )
    same = (FindingRow.detector, FindingRow.provider, FindingRow.model, FindingRow.route)
    largest = (FindingRow.monthly_cost_impact_usd.desc(), FindingRow.audit_id)
    ranked = (
        select(
            *(FindingRow.audit_id, FindingRow.id, FindingRow.detector, FindingRow.route),
            *(FindingRow.model, FindingRow.severity, FindingRow.monthly_cost_impact_usd),
            func.count().over(partition_by=same).label("audits"),
            func.row_number().over(partition_by=same, order_by=largest).label("place"),
        )
        .join(recent, recent.c.id == FindingRow.audit_id)
        .where(FindingRow.rank <= _RANKS_LOOKED_AT, FindingRow.monthly_cost_impact_usd > 0)
        .subquery()
    )
    columns = [column for column in ranked.c if column.name != "place"]
    query = select(*columns).where(ranked.c.place == 1)
    ordered = query.order_by(ranked.c.monthly_cost_impact_usd.desc(), ranked.c.id)
    return [TopFinding(*row) for row in session.execute(ordered.limit(_TOP_FINDINGS))]


def _runs(account_id: str, wanted: Wanted) -> Select[*tuple[Any, ...]]:
    columns = (
        *(Audit.id, Audit.created_at, Audit.source, Audit.status, Audit.records),
        *(Audit.total_spend_usd, _AVOIDABLE_USD, Audit.savings_pct, Audit.findings_count),
        Audit.error,
    )
    query = select(*columns).where(Audit.account_id == account_id)
    if wanted.status:
        query = query.where(Audit.status == wanted.status)
    if wanted.source:
        query = query.where(Audit.source == wanted.source)
    return query


def _find_place(session: Session, account_id: str, audit_id: str) -> ColumnElement[Any] | None:
    """Where in the ledger a run of the account stands."""
    if not audit_id:
        return None
    own = (Audit.account_id == account_id, Audit.id == audit_id)
    row = session.execute(select(Audit.created_at, Audit.id).where(*own)).one_or_none()
    return None if row is None else tuple_(literal(row.created_at), literal(row.id))
