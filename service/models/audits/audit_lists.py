"""Lists of audits and of findings.

They read only what is shown: with whole rows, a page takes longer.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import select, tuple_, union_all
from sqlalchemy.orm import Session

from service.models.audits.audits import ACCOUNT, DONE, Audit, Cursor, FindingRow, of_source

_AUDIT: Final = Audit.__table__.c
_FINDING: Final = FindingRow.__table__.c
_NEWEST: Final = (_AUDIT.created_at, _AUDIT.id)


class Selection(NamedTuple):
    """The filters of an audit list: status, earliest time, cursor and source."""

    limit: int
    status: str | None = None
    since: datetime | None = None
    after: Cursor | None = None
    source: str | None = None


class ListedAudit(NamedTuple):
    """What lists show of an audit; `Audit` describes the fields."""

    id: str
    status: str
    created_at: datetime
    source: str
    window_days: int | None
    records: int
    observed_days: int
    total_spend_usd: Decimal
    projected_spend_usd: Decimal
    savings_pct: float
    equiv_spend: bool
    findings_count: int
    projection: str | None
    span_days: float | None
    window_start: datetime | None
    monthly_factor: float | None
    verified_savings_usd: Decimal | None
    estimated_savings_usd: Decimal | None
    estimated_savings_low_usd: Decimal | None
    estimated_savings_high_usd: Decimal | None
    conditional_savings_usd: Decimal | None
    conditional_savings_low_usd: Decimal | None
    conditional_savings_high_usd: Decimal | None


class ListedFinding(NamedTuple):
    """What the list of an audit's findings shows; `FindingRow` describes the fields."""

    id: str
    detector: str
    route: str
    severity: str
    confidence: str
    monthly_cost_impact_usd: Decimal
    fix: str
    impact_low: Decimal | None
    impact_high: Decimal | None
    first_seen: datetime | None
    last_seen: datetime | None


def list_audits(session: Session, account_id: str, wanted: Selection) -> Sequence[ListedAudit]:
    """Return the account's audits, newest first; ties are sorted by ID, descending."""
    query = select(*(_AUDIT[name] for name in ListedAudit._fields)).where(
        _AUDIT.account_id == account_id, of_source(wanted.source)
    )
    if wanted.status is not None:
        query = query.where(_AUDIT.status == wanted.status)
    if wanted.since is not None:
        query = query.where(_AUDIT.created_at >= wanted.since)
    if wanted.after is not None:
        query = query.where(tuple_(*_NEWEST) < wanted.after)
    rows = session.execute(query.order_by(*(at.desc() for at in _NEWEST)).limit(wanted.limit))
    return list(map(ListedAudit._make, rows.all()))


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
    kinds = (
        select(*columns)
        .where(Audit.account_id == account_id, Audit.status == DONE, of_source(source))
        .order_by(Audit.created_at.desc(), Audit.id.desc())
        .limit(limit)
        .subquery()
        for source in (ACCOUNT, None)
    )
    both = union_all(*map(select, kinds)).subquery()
    is_account = (both.c.source == ACCOUNT).desc()
    query = select(both).order_by(is_account, both.c.created_at.desc(), both.c.id.desc())
    rows = session.execute(query)
    return [Reported(*row[:-1]) for row in rows if row.report_deleted_at is None]


def find_findings(
    session: Session, account_id: str, audit_id: str
) -> Sequence[ListedFinding] | None:
    """Return the findings of the account's audit by rank; None if it has no such audit."""
    rows = session.execute(
        select(*(_FINDING[name] for name in ListedFinding._fields))
        .select_from(Audit.__table__.outerjoin(FindingRow.__table__))
        .where(_AUDIT.account_id == account_id, _AUDIT.id == audit_id)
        .order_by(_FINDING.rank)
    ).all()
    if not rows:
        return None
    return [ListedFinding._make(row) for row in rows if row.id is not None]
